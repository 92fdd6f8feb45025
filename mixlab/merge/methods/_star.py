"""Spectral truncation and rescaling."""

from __future__ import annotations

import torch

from mixlab.merge._method import Context, PerModel, Share, Tensors, merge_method
from mixlab.merge.methods._linear import shares
from mixlab.merge.methods._spectrum import singular
from mixlab.merge.methods._step import step


@merge_method(
    source="Lee et al. 2025, STAR: Spectral Truncation and Rescale, arXiv:2502.10339, section 3",
    base="required",
    identity=True,
    symmetric=True,
)
def star(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    eta: Share = 0.4,
    weight: PerModel[float] = 1.0,
    normalize: bool = True,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """STAR: keep the top of each task vector's spectrum, restore its nuclear norm, average.

    Of a task vector U S V^T the fewest ranks are kept whose singular values sum to a share eta of
    all of them; the kept ones are scaled by (sum of all) / (sum of kept), and the task vectors are
    averaged: theta = base + sum_i w_i d_i / sum_i w_i. A tensor of other than two axes has a single
    rank or none, and is averaged as it is.

    Args:
        tensors: the tuned tensors, one a task; of one shape, any floating dtypes.
        base: what the task vectors are measured from.
        eta: share of the nuclear norm; 0.4 in the paper, which gives it in percent. At least one
            rank is kept.
        weight: of each task vector; all alike in the paper.
        normalize: divide by the sum of weights (the paper's simple average), or sum.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, weights that are normalised sum to 0, or a task vector is not
            finite.
    """
    assert base is not None
    assert isinstance(weight, tuple)
    change = torch.zeros_like(base)
    for tensor, share in zip(tensors, shares("star", weight, normalize), strict=True):
        change = change + share * _truncated(tensor - base, eta, context)
    return step(base, change)


def _truncated(change: torch.Tensor, eta: float, context: Context) -> torch.Tensor:
    if change.dim() != 2 or change.numel() == 0:
        return change
    u, s, vt = singular(change, context)
    sums = s.double().cumsum(0)
    if not sums[-1] > 0:
        return change
    # The first rank at which the sum reaches the share.
    rank = int(torch.searchsorted(sums, eta * sums[-1])) + 1
    scale = (sums[-1] / sums[rank - 1]).to(s.dtype)
    return (u[:, :rank] * (s[:rank] * scale)) @ vt[:rank]
