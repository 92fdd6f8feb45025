import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method, wise_ft
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import bits, theirs

ALPHAS = st.floats(0, 1)
DTYPES = st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64])
SHAPES = st.sampled_from([(1,), (7,), (3, 5), (2, 3, 4)])


def draw(shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def test_alpha_weighs_the_tuned_model():
    theta = wise_ft([torch.tensor([8.0, 4.0])], torch.tensor([0.0, 4.0]), alpha=0.25)
    assert theta.tolist() == [2.0, 4.0]


@settings(deadline=None)
@given(SHAPES, st.integers(0, 9), ALPHAS, DTYPES)
def test_a_model_with_itself_is_itself_bit_for_bit(shape, seed, alpha, dtype):
    x = draw(shape, seed, dtype)
    x.reshape(-1)[0] = -0.0
    assert bits(wise_ft([x.clone()], x, alpha=alpha)) == bits(x)


@settings(deadline=None)
@given(SHAPES, st.integers(0, 9), DTYPES)
def test_ends_are_exact_and_new(shape, seed, dtype):
    a, b = draw(shape, seed, dtype), draw(shape, seed + 1, dtype)
    assert bits(wise_ft([b], a, alpha=0)) == bits(a)
    assert bits(wise_ft([b], a, alpha=1)) == bits(b)
    assert wise_ft([b], a, alpha=0).data_ptr() != a.data_ptr()
    assert wise_ft([b], a, alpha=1).data_ptr() != b.data_ptr()


@settings(deadline=None)
@given(SHAPES, st.integers(0, 9), ALPHAS, DTYPES)
def test_half_precision_is_one_rounding_of_float64(shape, seed, alpha, dtype):
    a, b = draw(shape, seed, dtype), draw(shape, seed + 1, dtype)
    exact = (1 - alpha) * a.double() + alpha * b.double()
    # One unit in the last place of float32 before, half a unit of `dtype` after.
    error = (wise_ft([b], a, alpha=alpha).double() - exact).abs()
    unit = torch.finfo(dtype).eps / 2 + 4 * torch.finfo(torch.float32).eps
    scale = torch.maximum(a.double().abs(), b.double().abs())
    assert bool((error <= unit * scale + torch.finfo(dtype).tiny).all())


@settings(deadline=None, max_examples=30)
@given(SHAPES, st.integers(0, 9), st.floats(0.01, 0.99))
def test_agrees_with_mergekit(shape, seed, alpha):
    a, b = draw(shape, seed, torch.float32), draw(shape, seed + 1, torch.float32)
    expected = theirs("linear", [a, b], each={"weight": [1 - alpha, alpha]})
    torch.testing.assert_close(wise_ft([b], a, alpha=alpha), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("plain", [False, True])
def test_minus_zero_infinities_and_overflow_stay_where_the_two_agree(dtype, plain):
    high = torch.finfo(dtype).max
    x = torch.tensor([-0.0, 0.0, torch.inf, -torch.inf, high, 1.5], dtype=dtype)
    method = get_method("wise_ft")
    theta = method.apply([x], x.clone(), {"alpha": 0.3}, Context(), plain=plain)
    assert bits(theta) == bits(x)
    for alpha, end in ((0.0, -x), (1.0, x)):
        theta = method.apply([x], -x, {"alpha": alpha}, Context(), plain=plain)
        assert bits(theta) == bits(end)


def test_refuses_other_shapes_alphas_and_integers():
    with pytest.raises(MixlabError, match=r"shapes differ: \[3\] and \[2\]"):
        wise_ft([torch.zeros(3)], torch.zeros(2), alpha=0.5)
    with pytest.raises(MixlabError, match=r"alpha: .* found 1\.5"):
        wise_ft([torch.zeros(2)], torch.zeros(2), alpha=1.5)
    with pytest.raises(MixlabError, match="cannot be averaged"):
        wise_ft([torch.tensor([2])], torch.tensor([1]), alpha=0.5)
    assert wise_ft([torch.tensor([1])], torch.tensor([1]), alpha=0.5).tolist() == [1]
