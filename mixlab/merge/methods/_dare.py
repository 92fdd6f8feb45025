"""DARE: drop elements of task vectors at random and rescale the rest."""

from __future__ import annotations

import torch

from mixlab.merge._method import Context, PerModel, Share, Tensors, merge_method
from mixlab.merge.methods._combine import (
    Consensus,
    Elect,
    add_elected,
    add_weighted,
    total_weight,
)
from mixlab.merge.methods._rescale import Rescale, keep
from mixlab.merge.methods._sparsify import keep_randomly


@merge_method(
    source="Yu et al. 2024, DARE, arXiv:2311.03099; mergekit `dare_linear`",
    base="required",
    identity=True,
    symmetric=True,
    random=True,
)
def dare_linear(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    density: PerModel[Share] = 1.0,
    normalize: bool = False,
    rescale: Rescale = True,
    lambda_: float = 1.0,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """DARE: drop elements of each task vector at random, rescale the rest, and sum.

    The expectation over seeds is task arithmetic where `rescale` is "inverse"; with "l1" the L1
    norm is exact instead, in every tensor.

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        density: the probability with which each element is kept, to 2**-17.
        normalize: divide by the sum of weights.
        rescale: true or "l1" matches the L1 norm of the whole task vector per tensor (mergekit's
            default); "inverse" divides each kept element by its probability of being kept
            (the paper: 1 / density, the same to 2**-17); false does neither.
        lambda_: scale of the merged change.
        context: seed, tensor name and model keys, which with the element's index key every
            random bit: neither order, threads nor cutting changes one. (mergekit draws from
            torch's global generator, so its masks are others, and no seed is recorded.)

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
    total = total_weight("dare_linear", weight, normalize)
    deltas = []
    for index, (tensor, share) in enumerate(zip(tensors, density, strict=True)):
        delta = tensor - base
        deltas.append(keep(delta, keep_randomly(delta, share, context, index), rescale, share))
    return add_weighted(base, deltas, weight, total, lambda_)


@merge_method(
    source="Yu et al. 2024, DARE, arXiv:2311.03099; mergekit `dare_ties`",
    base="required",
    identity=True,
    symmetric=True,
    random=True,
)
def dare_ties(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    density: PerModel[Share] = 1.0,
    normalize: bool = False,
    rescale: Rescale = True,
    lambda_: float = 1.0,
    elect: Elect = "weighted",
    consensus: Consensus = "sum",
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """DARE, then TIES: drop at random, rescale, elect signs, sum what agrees.

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        density: the probability with which each element is kept, to 2**-17.
        normalize: divide each element by the sum of weights of the models that agree there.
        rescale: true or "l1" matches the L1 norm of the whole task vector per tensor (mergekit's
            default); "inverse" divides each kept element by its probability of being kept
            (the paper: 1 / density, the same to 2**-17); false does neither.
        lambda_: scale of the merged change.
        elect, consensus: who votes on the sign of an element, and how; see `add_elected`.
        context: seed, tensor name and model keys, which with the element's index key every
            random bit: neither order, threads nor cutting changes one. (mergekit draws from
            torch's global generator, so its masks are others, and no seed is recorded.)

    Returns:
        A new tensor in the dtype of the first model, computed in float32 and rounded once. Where
        nothing changes it has the base's bits.

    Raises:
        MixlabError: shapes differ or density is outside [0, 1].
    """
    assert base is not None
    assert isinstance(weight, tuple)
    assert isinstance(density, tuple)
    deltas = []
    for index, (tensor, share) in enumerate(zip(tensors, density, strict=True)):
        delta = tensor - base
        deltas.append(keep(delta, keep_randomly(delta, share, context, index), rescale, share))
    return add_elected(
        base,
        deltas,
        weight,
        normalize=normalize,
        lambda_=lambda_,
        elect=elect,
        consensus=consensus,
    )
