"""SCE: select by variance, calculate weights, erase minority signs."""

from __future__ import annotations

import torch

from mixlab.merge._agree import keep_agreed
from mixlab.merge._method import Share, Tensors, merge_method
from mixlab.merge._order import order_statistics


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
        chosen = _most_varied(vectors, select_topk)
        vectors = [v * chosen for v in vectors]
    squares = torch.stack([v.square().mean() for v in vectors])
    total = squares.sum()
    weights = torch.full_like(squares, 1 / len(vectors)) if total < 1e-6 else squares / total
    positive = _sum(vectors) >= 0
    above, below = torch.zeros_like(base), torch.zeros_like(base)
    for v, w in zip(vectors, weights, strict=True):
        share = w * (torch.where(positive, v > 0, v < 0))
        above.addcmul_(share, v)
        below += share
    return keep_agreed(base + above / below.clamp_(min=1e-6), [base, *tensors])


def _most_varied(vectors: Tensors, share: float) -> torch.Tensor:
    # From the first, so that equal ones have a variance of exactly 0.
    mean = vectors[0] + _sum([v - vectors[0] for v in vectors]) / len(vectors)
    variance = torch.zeros_like(mean)
    for v in vectors:
        variance += (v - mean).square_() / len(vectors)
    # In float32, as mergekit rounds this product.
    count = int(torch.count_nonzero(variance) * share)
    if not count:
        return torch.zeros_like(mean, dtype=torch.bool)
    (smallest,) = order_statistics(variance.flatten(), [variance.numel() - count])
    return variance >= smallest


def _sum(vectors: Tensors) -> torch.Tensor:
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total
