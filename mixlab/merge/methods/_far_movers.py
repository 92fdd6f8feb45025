"""Only the weights that tuning moved most, or least."""

from __future__ import annotations

from typing import Literal

import torch

from mixlab.merge._method import Share, Tensors, merge_method
from mixlab.merge.methods._order import order_statistics


@merge_method(
    source="Neuron-Fusion, arXiv:2505.16703 (rows); Model Tailor, arXiv:2402.12048 (elements)",
    base="required",
    models=(1, 1),
    identity=True,
)
def keep_far_movers(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    density: Share = 0.1,
    which: Literal["far", "near"] = "far",
    unit: Literal["element", "row"] = "element",
) -> torch.Tensor:
    """theta = base + mask * (tuned - base); the mask keeps the share that moved most, or least.

    What is kept is the tuned model's bit for bit, the rest is the base's. Neuron-Fusion keeps
    neurons that moved far; Model Tailor keeps at most 10% of the tuned weights, and picks them by
    sensitivity too and corrects what it keeps, which is not done here. Units are ranked within each
    tensor. Where the two differ by no number the result is NaN, and counts as moved most.

    Args:
        tensors: the tuned tensor, alone in a sequence; any shape and floating dtype.
        base: the reference, of the same shape.
        density: share of units kept: exactly floor(density * units), earlier ones first among
            those that moved alike.
        which: far keeps the units that moved most, near those that moved least.
        unit: single elements by |tuned - base|, or rows (of the first axis: a neuron's incoming
            weights) by the Euclidean length of their move.

    Returns:
        A new tensor in the dtype of the tuned one.

    Raises:
        MixlabError: shapes differ.
    """
    assert base is not None
    (tuned,) = tensors
    moved = (tuned - base).abs_().masked_fill_(tuned == base, 0)
    undefined = moved.isnan()
    if unit == "row" and moved.dim() > 1:
        moved = torch.linalg.vector_norm(moved.flatten(1), dim=1)
    moved = torch.where(moved.isnan(), torch.inf, moved)
    # The tiny addend keeps 0.29 * 100 from falling to 28.
    count = int(density * moved.numel() + 1e-6)
    mask = largest(moved if which == "far" else -moved, count)
    mask = mask.view(mask.shape + (1,) * (tuned.dim() - mask.dim()))
    return torch.where(mask, tuned, base).masked_fill_(undefined, torch.nan)


def largest(values: torch.Tensor, count: int) -> torch.Tensor:
    """Where the `count` largest values stand; of equal ones the earlier are taken."""
    if count == 0 or values.numel() == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    flat = values.reshape(-1)
    (edge,) = order_statistics(flat, [flat.numel() - count])
    mask = flat > edge
    level = (flat == edge).nonzero().view(-1)
    mask[level[: count - int(mask.sum())]] = True
    return mask.view(values.shape)
