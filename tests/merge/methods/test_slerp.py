import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method, slerp
from mixlab.merge.kernels._slerp import angle_cosine
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import bits, models, theirs

T = st.floats(0, 1)


@settings(deadline=None, max_examples=60)
@given(models(1), T)
def test_agrees_with_mergekit(drawn, t):
    (other,), base = drawn
    expected = theirs("slerp", [other], base, t=t)
    ours = slerp([other], base, t=t, antiparallel="lerp")
    # mergekit rounds the angle to float32.
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_a_quarter_turn_halved():
    theta = slerp([torch.tensor([0.0, 1.0])], torch.tensor([1.0, 0.0]), t=0.5)
    assert theta.tolist() == pytest.approx([math.sqrt(0.5)] * 2)


def test_antiparallel_vectors_are_refused_with_the_way_out():
    x = torch.tensor([3.0, -4.0])
    with pytest.raises(MixlabError, match=r"w: slerp: .*opposite.*antiparallel: lerp"):
        slerp([-2 * x], x, t=0.5, context=Context("w"))
    assert slerp([-2 * x], x, t=0.5, antiparallel="lerp").tolist() == [-1.5, 2.0]
    assert bits(slerp([-2 * x], x, t=1)) == bits(-2 * x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_report_counts_what_lerp_took(dtype):
    x = torch.randn(50, generator=torch.Generator().manual_seed(0)).to(dtype)
    notes: list[str] = []
    slerp([1.1 * x], x, t=0.5, context=Context("w", notes=notes))
    assert notes == ["handed to lerp"]
    slerp([x.flip(0)], x, t=0.5, context=Context("w", notes=notes))
    assert notes == ["handed to lerp"]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([1, 4095, 4097, 70_001]), T, st.floats(0.01, 0.9))
def test_fast_path_is_the_formula(size, t, apart):
    generator = torch.Generator().manual_seed(size)
    base = torch.randn(size, generator=generator).bfloat16()
    other = (base + apart * torch.randn(size, generator=generator)).bfloat16()
    method = get_method("slerp")
    given = {"t": t, "antiparallel": "lerp"}
    fast, plain = (method.apply([other], base, given, Context(), plain=p) for p in (False, True))
    torch.testing.assert_close(fast, plain, rtol=2**-7, atol=1e-6)
    assert bool((fast != plain).float().mean() < 0.01)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 200_000), st.floats(-1, 1), st.sampled_from([1e-3, 1.0, 1e25]))
def test_the_cosine_is_that_of_float64(size, mix, scale):
    generator = torch.Generator().manual_seed(size)
    a = torch.randn(size, generator=generator)
    b = scale * (mix * a + (1 - abs(mix)) * torch.randn(size, generator=generator))
    lengths = a.double().norm() * b.double().norm()
    exact = float(a.double() @ b.double() / lengths) if lengths else 0.0
    assert angle_cosine(a, b) == pytest.approx(exact, abs=2e-7)


def test_vectors_without_direction():
    tiny, zero, x = torch.full((4,), 1e-12), torch.zeros(4), torch.ones(4)
    assert bits(slerp([tiny], tiny, t=0.3)) == bits(tiny)
    assert slerp([x], zero, t=0.5).tolist() == pytest.approx([math.sqrt(0.5)] * 4)
    assert bits(slerp([zero], -zero, t=0.5)) == bits(-zero)
