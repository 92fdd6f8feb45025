"""TIES: trim, elect a sign, merge what agrees."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from mixlab.merge._method import PerModel, Share, Tensors, merge_method
from mixlab.merge.methods._combine import Consensus, Elect, add_elected
from mixlab.merge.methods._rescale import keep
from mixlab.merge.methods._sparsify import keep_largest

Magnitude = Annotated[float, Field(ge=0)]


@merge_method(
    source="Yadav et al. 2023, TIES-Merging, arXiv:2306.01708; mergekit `ties`",
    base="required",
    identity=True,
    symmetric=True,
)
def ties(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    density: PerModel[Share] = 1.0,
    threshold: PerModel[Magnitude] = 0.0,
    normalize: bool = True,
    rescale: bool = False,
    lambda_: float = 1.0,
    elect: Elect = "weighted",
    consensus: Consensus = "sum",
) -> torch.Tensor:
    """TIES: keep each task vector's largest elements, elect signs, average what agrees.

    Exactly k = max(1, int(density * n)) elements are kept of each task vector; of equal magnitudes
    at the threshold the earlier ones (mergekit: as many, whichever its unstable sort puts first).

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        density: the share of each tensor's elements that is kept. 0 keeps none, 1 all, anything
            between at least one. Per tensor, as in mergekit.
        threshold: smaller magnitudes are dropped too. The paper's code cuts once over all
            parameters of a model: leave density at 1 and give `model_threshold` here.
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
    assert isinstance(threshold, tuple)
    deltas = []
    for tensor, share, least in zip(tensors, density, threshold, strict=True):
        delta = tensor - base
        mask = keep_largest(delta, share) * (delta.abs() >= least)
        deltas.append(keep(delta, mask, rescale))
    return add_elected(
        base,
        deltas,
        weight,
        normalize=normalize,
        lambda_=lambda_,
        elect=elect,
        consensus=consensus,
    )
