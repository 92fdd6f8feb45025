"""Reinforced agent merging: a change that one model alone made is not diluted by the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field

from mixlab.merge._method import Tensors, merge_method
from mixlab.merge.methods._agree import keep_agreed

Positive = Annotated[float, Field(ge=0)]


@merge_method(
    source="Reinforced Agent Merging 2026, arXiv:2601.13572; mergekit `ram`",
    base="required",
    identity=True,
    symmetric=True,
)
def ram(tensors: Tensors, base: torch.Tensor | None, *, epsilon: Positive = 1e-5) -> torch.Tensor:
    """theta = base + sum_i [|v_i| > epsilon] v_i / max(1, number of such i), v_i = x_i - base.

    Each element moves by the mean over the models that moved it, not over all.

    Args:
        tensors: tuned tensors of one shape, any floating dtypes.
        base: of the same shape.
        epsilon: a move no larger counts as none.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or epsilon is negative.
    """
    assert base is not None
    theta = merge_moves(tensors, base, epsilon, [1.0] * len(tensors))
    return keep_agreed(theta, [base, *tensors])


@merge_method(
    source="Reinforced Agent Merging 2026, arXiv:2601.13572; mergekit `ramplus_tl`",
    base="required",
    identity=True,
    symmetric=True,
)
def ramplus_tl(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    r: float = 0.1,
    alpha: Positive = 0.2,
    epsilon: Positive = 1e-5,
) -> torch.Tensor:
    """`ram`, where a move that model i alone made counts 1 + r min(alpha, shared_i / unique_i).

    shared_i and unique_i count the elements of this tensor that model i moved together with others
    and alone; with none alone, the ratio counts as `alpha` (mergekit).

    Args:
        tensors: tuned tensors of one shape, any floating dtypes.
        base: of the same shape.
        r: gain of moves of one model.
        alpha: largest ratio.
        epsilon: a move no larger counts as none.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or alpha or epsilon is negative.
    """
    assert base is not None
    counts = count_moves(tensors, base, epsilon)
    theta = merge_moves(tensors, base, epsilon, gains(counts, r, alpha))
    return keep_agreed(theta, [base, *tensors])


def merge_moves(
    tensors: Tensors, base: torch.Tensor, epsilon: float, gain: Sequence[float]
) -> torch.Tensor:
    """base + the mean move over the models that moved, times gain_i where i alone did."""
    # Masks are floats: several times quicker on the CPU than booleans and torch.where.
    movers = torch.zeros_like(base)
    for x in tensors:
        movers += (x - base).detach().abs_().gt_(epsilon)
    alone = movers.eq(1).to(base.dtype)
    share = movers.clamp_(min=1).reciprocal_()
    theta = torch.zeros_like(base)
    for x, factor in zip(tensors, gain, strict=True):
        vector = x - base
        vector *= vector.detach().abs().gt_(epsilon)
        theta.addcmul_(vector, share if factor == 1 else torch.add(share, alone, alpha=factor - 1))
    return theta.add_(base)


def count_moves(tensors: Tensors, base: torch.Tensor, epsilon: float) -> list[tuple[int, int]]:
    """(elements that it moved together with others, and alone) of each model."""
    moved = [(x - base).detach().abs_().gt_(epsilon) for x in tensors]
    movers = torch.zeros_like(base)
    for mask in moved:
        movers += mask
    alone = movers.eq_(1)
    counts = []
    for mask in moved:
        every = int(torch.count_nonzero(mask))
        unique = int(torch.count_nonzero(mask.mul_(alone)))
        counts.append((every - unique, unique))
    return counts


def gains(counts: Sequence[tuple[int, int]], r: float, alpha: float) -> list[float]:
    """1 + r min(alpha, shared / unique) of each model."""
    return [1 + r * min(alpha, shared / max(unique, 1e-5)) for shared, unique in counts]
