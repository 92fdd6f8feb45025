"""Random masks: kept share, scale, no bias, and bits that belong to their element."""

from __future__ import annotations

import pytest
import torch

from mixlab.merge import Context, get_method
from mixlab.merge._random import odds_drawn

RANDOM = ["dare_linear", "dare_ties", "della", "della_linear"]


def masked(name: str, tuned: torch.Tensor, context: Context, **given: object) -> torch.Tensor:
    """The change of one model whose task vector is `tuned`."""
    method = get_method(name)
    settings = method.settings(given, 1)
    return method.apply([tuned], torch.zeros_like(tuned), settings, context)


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("density", [0.2, 0.5, 0.8])
def test_kept_share_and_scale(name: str, density: float) -> None:
    tuned = torch.randn(400, 500, generator=torch.Generator().manual_seed(0))
    plain = masked(name, tuned, Context("w"), density=density, rescale=False)
    kept = plain != 0
    # Five standard deviations of the binomial (DELLA's varies less).
    assert abs(kept.float().mean() - density) < 5 * (density * (1 - density) / 2e5) ** 0.5
    assert torch.equal(plain[kept], tuned[kept])
    l1 = masked(name, tuned, Context("w"), density=density)
    torch.testing.assert_close(l1.abs().sum(), tuned.abs().sum())
    assert torch.equal(l1 != 0, kept)
    (scale,) = (l1[kept] / tuned[kept]).double().round(decimals=5).unique()
    if name.startswith("dare"):
        assert abs(scale - 1 / density) < 0.02 / density
        inverse = masked(name, tuned, Context("w"), density=density, rescale="inverse")
        torch.testing.assert_close(inverse[kept], tuned[kept] / float(odds_drawn(density)))


def test_della_keeps_the_larger_more_often() -> None:
    tuned = torch.randn(1000, 256, generator=torch.Generator().manual_seed(0))
    kept = masked("della", tuned, Context("w"), density=0.5, epsilon=0.3, rescale=False) != 0
    ranks = tuned.abs().argsort(1).argsort(1)
    share = torch.stack([kept[ranks == rank].float().mean() for rank in range(0, 256, 5)])
    expected = 0.2 + 0.6 * torch.arange(0, 256, 5) / 255
    assert (share - expected).abs().max() < 5 * (0.25 / 1000) ** 0.5


@pytest.mark.parametrize("name", RANDOM)
def test_inverse_has_no_bias_over_seeds(name: str) -> None:
    tuned = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    seeds = 400
    drawn = torch.stack(
        [
            masked(name, tuned, Context("w", seed=seed), density=0.5, rescale="inverse")
            for seed in range(seeds)
        ]
    )
    error = (drawn.mean(0) - tuned).abs() / (drawn.std(0) / seeds**0.5)
    assert error.max() < 5


@pytest.mark.parametrize("density", [1e-9, 1e-4])
def test_odds_that_16_bits_do_not_hold_have_no_bias_either(density: float) -> None:
    tuned = torch.ones(1 << 20)
    theta = masked("dare_linear", tuned, Context("w"), density=density, rescale="inverse")
    kept = int((theta != 0).sum())
    assert kept
    # The sum has the expectation of the task vector's, and the spread of a Poisson count.
    assert abs(float(theta.double().mean()) - 1) < 5 / kept**0.5


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("context", [Context("v"), Context("w", seed=1), Context("w", ("b",))])
def test_other_names_seeds_and_models_draw_other_masks(name: str, context: Context) -> None:
    tuned = torch.randn(100, 100, generator=torch.Generator().manual_seed(1))
    one = masked(name, tuned, Context("w"), density=0.5, rescale=False) != 0
    other = masked(name, tuned, context, density=0.5, rescale=False) != 0
    # Independent masks of one half agree in one half.
    assert abs((one == other).float().mean() - 0.5) < (0.05 if name.startswith("dare") else 0.1)


def test_two_models_of_one_merge_draw_apart() -> None:
    x = torch.ones(10000)
    method = get_method("dare_linear")
    settings = method.settings({"density": 0.5, "weight": [1, 2], "rescale": False}, 2)
    theta = method.apply([x, x], torch.zeros(10000), settings, Context("w"))
    shares = [float((theta == value).float().mean()) for value in range(4)]
    assert shares == pytest.approx([0.25] * 4, abs=0.03)
