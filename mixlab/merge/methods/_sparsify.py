"""Which elements of a task vector are kept: the definitions, by sorting whole tensors.

A mask is a tensor of 0 and 1 in the delta's dtype and shape. Elements are ordered by magnitude,
the largest first, and of equal ones the earlier first (NaN counts as larger than all); mergekit
leaves the order of equals to an unstable sort, so that it may keep others of the same magnitude,
and as many.
"""

from __future__ import annotations

import torch

from mixlab.merge._method import Context
from mixlab.merge._random import tickets_like, winning
from mixlab.spec import MixlabError


def count_largest(density: float, numel: int) -> int:
    """How many elements `keep_largest` keeps: at least one where density is above 0."""
    return 0 if density <= 0 else min(numel, max(1, int(density * numel)))


def middle_ranks(density: float, gamma: float, numel: int) -> tuple[int, int]:
    """First and one past the last rank that `keep_middle` keeps, in descending magnitude.

    Fewer outliers than `gamma` go where density + gamma is above 1.
    """
    if density >= 1:
        return 0, numel
    kept = int(density * numel)
    outliers = min(int(gamma * numel), numel - kept)
    return outliers, outliers + kept


def keep_ranks(delta: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    """Mask of ranks `start` to `stop` (exclusive) in descending magnitude over the whole tensor."""
    order = delta.abs().flatten().argsort(descending=True, stable=True)
    mask = torch.zeros_like(delta).flatten()
    mask[order[start:stop]] = 1
    return mask.reshape(delta.shape)


def keep_largest(delta: torch.Tensor, density: float) -> torch.Tensor:
    """Mask of the share `density` of largest magnitude."""
    return keep_ranks(delta, 0, count_largest(density, delta.numel()))


def keep_middle(delta: torch.Tensor, density: float, gamma: float) -> torch.Tensor:
    """Mask of the share `density` that is largest once the share `gamma` of outliers is gone."""
    return keep_ranks(delta, *middle_ranks(density, gamma, delta.numel()))


def keep_odds(delta: torch.Tensor, density: float, epsilon: float) -> torch.Tensor:
    """The probability that DELLA keeps each element, float64: higher for larger magnitudes.

    density - epsilon for the smallest to density + epsilon for the largest, linear in the rank. A
    row is dimension 1, as in mergekit (the columns of a matrix; for a convolution its input
    channels), and all of a vector. In a row of one element, whose odds mergekit cannot compute
    (0 / 0), they are `density`. Equal magnitudes take ranks in the order of elements.
    """
    if density >= 1 or density <= 0:
        return torch.full_like(delta, float(density), dtype=torch.float64)
    check_epsilon(density, epsilon)
    axis = 1 if delta.dim() > 1 else 0
    rows = delta.abs().reshape(delta.shape or (1,)).movedim(axis, -1)
    ranks = rows.argsort(dim=-1, stable=True).argsort(dim=-1)
    odds = rank_odds(density, epsilon, rows.shape[-1]).to(delta.device)[ranks]
    return odds.movedim(-1, axis).reshape(delta.shape)


def rank_odds(density: float, epsilon: float, count: int) -> torch.Tensor:
    """DELLA's odds of ranks 0 (the smallest) to count - 1."""
    if count == 1:
        return torch.full((1,), density, dtype=torch.float64)
    share = torch.arange(count, dtype=torch.float64) / max(count - 1, 1)
    return (density - epsilon) + share * 2 * epsilon


def check_epsilon(density: float, epsilon: float) -> None:
    """Raise MixlabError unless DELLA's odds lie inside (0, 1)."""
    if density + epsilon >= 1 or density - epsilon <= 0:
        room = min(density, 1 - density)
        raise MixlabError(
            f"density {density} with epsilon {epsilon} gives odds from {density - epsilon:g} to "
            f"{density + epsilon:g}; expected them inside (0, 1): set epsilon below {room:g}"
        )


def keep_randomly(
    delta: torch.Tensor, odds: torch.Tensor | float, context: Context, index: int
) -> torch.Tensor:
    """Mask that keeps each element with probability `odds` (to 2**-17), by model `index`'s bits."""
    given = odds.detach().cpu().numpy() if isinstance(odds, torch.Tensor) else odds
    limit = torch.from_numpy(winning(given)).to(delta.device)
    return (tickets_like(delta, context, index) < limit).to(delta.dtype)
