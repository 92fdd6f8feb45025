import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mixlab.merge import Context, get_method, permuted_direction, random_direction

SHAPES = st.sampled_from([(1,), (33,), (5, 7), (2, 3, 4)])


def pair(shape: tuple[int, ...], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(shape, generator=generator)
    return base, base + 0.1 * torch.randn(shape, generator=generator)


@settings(deadline=None, max_examples=40)
@given(SHAPES, st.integers(0, 99), st.floats(-2, 2))
def test_the_step_is_as_long_as_the_real_one(shape, seed, alpha):
    base, tuned = (t.double() for t in pair(shape, seed))
    theta = random_direction([tuned], base, alpha=alpha, context=Context("a", seed=seed))
    length = abs(alpha) * (tuned - base).norm()
    torch.testing.assert_close((theta - base).norm(), length, rtol=1e-12, atol=1e-12)


def test_the_direction_is_gaussian_and_has_nothing_to_do_with_the_real_one():
    base, tuned = pair((200, 100))
    base, tuned = base.double(), tuned.double()
    change = random_direction([tuned], base, context=Context("a")) - base
    scaled = (change / change.std()).flatten().numpy()
    assert stats.kstest(scaled, "norm").pvalue > 1e-3
    cosine = torch.cosine_similarity(change.flatten(), (tuned - base).flatten(), dim=0)
    assert abs(float(cosine)) < 5 / 20_000**0.5


@settings(deadline=None, max_examples=40)
@given(SHAPES, st.integers(0, 99))
def test_a_permuted_step_keeps_its_values(shape, seed):
    base, tuned = (t.double() for t in pair(shape, seed))
    theta = permuted_direction([tuned], torch.zeros_like(base), context=Context("a", seed=seed))
    assert sorted(theta.flatten().tolist()) == sorted(tuned.flatten().tolist())
    step = permuted_direction([tuned], base, alpha=0.5, context=Context("a", seed=seed)) - base
    torch.testing.assert_close(
        step.flatten().sort().values, 0.5 * (tuned - base).flatten().sort().values
    )


def test_every_place_gets_every_value_alike():
    ramp = torch.arange(4.0)
    counts = torch.zeros(4, 4)
    for seed in range(600):
        theta = permuted_direction([ramp], torch.zeros(4), context=Context("a", seed=seed))
        counts[torch.arange(4), theta.long()] += 1
    assert stats.chisquare(counts.flatten().numpy()).pvalue > 1e-3


@pytest.mark.parametrize("null", [random_direction, permuted_direction])
def test_alpha_0_and_a_model_that_did_not_move_are_the_base(null):
    base, tuned = pair((4, 4))
    base[0, 0] = -0.0
    for theta in (null([tuned], base, alpha=0), null([base.clone()], base)):
        assert theta.view(torch.int32).tolist() == base.view(torch.int32).tolist()


@pytest.mark.parametrize("null", [random_direction, permuted_direction])
def test_one_walk_for_all_alphas_and_another_for_each_model(null):
    base, tuned = (t.double() for t in pair((6, 6)))
    one = Context("a", models=("x",), seed=1)
    whole = null([tuned], base, context=one) - base
    half = null([tuned], base, alpha=0.5, context=one) - base
    torch.testing.assert_close(half, whole / 2)
    other = null([tuned], base, context=Context("a", models=("y",), seed=1)) - base
    assert not torch.allclose(whole, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fast_path_is_the_formula_over_parts(dtype):
    base, tuned = (t.to(dtype) for t in pair((3, 100_000)))
    method = get_method("random_direction")
    given, context = method.settings({"alpha": 0.7}, 1), Context("a", seed=2)
    fast, plain = (method.apply([tuned], base, given, context, plain=p) for p in (False, True))
    rtol = 2e-6 if dtype == torch.float32 else 2**-7
    torch.testing.assert_close(fast, plain, rtol=rtol, atol=1e-7)
    assert float((fast == plain).float().mean()) > 0.99
