"""Breadcrumbs: task vectors without their largest and smallest elements."""

from __future__ import annotations

import torch

from mixlab.merge._method import PerModel, Share, Tensors, merge_method
from mixlab.merge.methods._combine import (
    Consensus,
    Elect,
    add_elected,
    add_weighted,
    total_weight,
)
from mixlab.merge.methods._rescale import keep
from mixlab.merge.methods._sparsify import keep_middle


@merge_method(
    source="Davari and Belilovsky 2024, Model Breadcrumbs, arXiv:2312.06795; mergekit",
    base="required",
    identity=True,
    symmetric=True,
)
def breadcrumbs(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    density: PerModel[Share] = 1.0,
    gamma: PerModel[Share] = 0.01,
    normalize: bool = False,
    rescale: bool = False,
    lambda_: float = 1.0,
) -> torch.Tensor:
    """Breadcrumbs: drop the largest and smallest elements of each task vector, and sum.

    Of equal magnitudes at either threshold the earlier ones count as larger (mergekit: whichever
    its unstable sort puts first; it keeps as many).

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        density: the share of each tensor's elements that is kept, int(density * n) of n.
        gamma: the share of largest elements that is dropped first, as outliers. Fewer are, where
            density + gamma is above 1; none, where density is 1 (both as in mergekit).
        normalize: divide by the sum of weights.
        rescale: match the L1 norm of the whole task vector per tensor.
        lambda_: scale of the merged change.

    Returns:
        A new tensor in the dtype of the first model, computed in float32 and rounded once. Where
        nothing changes it has the base's bits.

    Raises:
        MixlabError: shapes differ, density is outside [0, 1], or weights that are normalised
            sum to 0.
    """
    assert base is not None
    assert isinstance(weight, tuple)
    assert isinstance(density, tuple)
    assert isinstance(gamma, tuple)
    total = total_weight("breadcrumbs", weight, normalize)
    deltas = []
    for tensor, share, outliers in zip(tensors, density, gamma, strict=True):
        delta = tensor - base
        deltas.append(keep(delta, keep_middle(delta, share, outliers), rescale))
    return add_weighted(base, deltas, weight, total, lambda_)


@merge_method(
    source="Davari and Belilovsky 2024, Model Breadcrumbs, arXiv:2312.06795; mergekit",
    base="required",
    identity=True,
    symmetric=True,
)
def breadcrumbs_ties(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    density: PerModel[Share] = 1.0,
    gamma: PerModel[Share] = 0.01,
    normalize: bool = False,
    rescale: bool = False,
    lambda_: float = 1.0,
    elect: Elect = "weighted",
    consensus: Consensus = "sum",
) -> torch.Tensor:
    """Breadcrumbs, then TIES: drop largest and smallest, elect signs, sum what agrees.

    Of equal magnitudes at either threshold the earlier ones count as larger (mergekit: whichever
    its unstable sort puts first; it keeps as many).

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        density: the share of each tensor's elements that is kept, int(density * n) of n.
        gamma: the share of largest elements that is dropped first, as outliers. Fewer are, where
            density + gamma is above 1; none, where density is 1 (both as in mergekit).
        normalize: divide each element by the sum of weights of the models that agree there.
        rescale: match the L1 norm of the whole task vector per tensor.
        lambda_: scale of the merged change.
        elect, consensus: who votes on the sign of an element, and how; see `add_elected`.

    Returns:
        A new tensor in the dtype of the first model, computed in float32 and rounded once. Where
        nothing changes it has the base's bits.

    Raises:
        MixlabError: shapes differ or density is outside [0, 1].
    """
    assert base is not None
    assert isinstance(weight, tuple)
    assert isinstance(density, tuple)
    assert isinstance(gamma, tuple)
    deltas = []
    for tensor, share, outliers in zip(tensors, density, gamma, strict=True):
        delta = tensor - base
        deltas.append(keep(delta, keep_middle(delta, share, outliers), rescale))
    return add_elected(
        base,
        deltas,
        weight,
        normalize=normalize,
        lambda_=lambda_,
        elect=elect,
        consensus=consensus,
    )
