"""SCE: select by variance, calculate weights, erase minority signs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mixlab.merge._method import Share, Tensors, merge_method
from mixlab.merge.methods._agree import keep_agreed
from mixlab.merge.methods._order import order_statistics


@merge_method(
    source="Wan et al. 2024, FuseChat (SCE), arXiv:2408.07990; mergekit `sce`",
    base="required",
    identity=True,
    symmetric=True,
)
def sce(tensors: Tensors, base: torch.Tensor | None, *, select_topk: Share = 1.0) -> torch.Tensor:
    """theta = base + sum_i w_i e_i v_i / sum_i w_i e_i over the task vectors v_i = x_i - base.

    Select: of the elements whose variance over the models is not 0, the share `select_topk` with
    the largest stays, the others become 0. Calculate: w_i is the model's share of all squares.
    Erase: e_i is 1 where v_i has the sign of the sum over models (0 counts as positive), else 0.

    Elements that tie with the last selected one are selected too; mergekit takes some of them,
    which ones is not defined. A single model has no variance: with `select_topk` below 1 nothing of
    it is selected (mergekit).

    Args:
        tensors: tuned tensors of one shape, any floating dtypes.
        base: of the same shape.
        select_topk: share of elements, of each tensor.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or select_topk is outside [0, 1].
    """
    assert base is not None
    vectors = [x - base for x in tensors]
    if select_topk < 1:
        varied = variance(vectors)
        chosen = varied >= smallest_chosen(varied.flatten(), select_topk)
        vectors = [v * chosen for v in vectors]
    weights = shares_of_squares([float(v.detach().square().mean()) for v in vectors])
    return keep_agreed(base + consensus(vectors, weights), [base, *tensors])


def variance(vectors: Tensors) -> torch.Tensor:
    """Of each element over the models, biased."""
    # The mean from the first, so that equal ones have a variance of exactly 0.
    mean = vectors[0] + _sum([v - vectors[0] for v in vectors]) / len(vectors)
    return _sum([(v - mean).square_() for v in vectors]) / len(vectors)


def smallest_chosen(varied: torch.Tensor, share: float) -> float:
    """The least variance that is selected; infinity if none is."""
    # A product in float32, as mergekit rounds it.
    there = torch.count_nonzero(varied)
    count = min(int(there), int(there * share))
    return order_statistics(varied, [varied.numel() - count])[0] if count else torch.inf


def shares_of_squares(squares: Sequence[float]) -> list[float]:
    """w_i; equal where there are hardly any squares (mergekit)."""
    total = sum(squares)
    return [1 / len(squares) if total < 1e-6 else square / total for square in squares]


def consensus(vectors: Tensors, weights: Sequence[float]) -> torch.Tensor:
    """Weighted mean over the models that have the sign of the sum."""
    # Masks are floats: several times quicker on the CPU than booleans and torch.where.
    sign = _sum(vectors).ge_(0).mul_(2).sub_(1)
    above, below = torch.zeros_like(vectors[0]), torch.zeros_like(vectors[0])
    for v, w in zip(vectors, weights, strict=True):
        agrees = (v * sign).gt_(0)
        below.add_(agrees, alpha=w)
        above.add_(agrees.mul_(v), alpha=w)
    return above.div_(below.clamp_(min=1e-6))


def _sum(vectors: Tensors) -> torch.Tensor:
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total
