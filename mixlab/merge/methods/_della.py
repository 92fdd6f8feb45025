"""DELLA: drop elements of task vectors at random, small ones more often."""

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
from mixlab.merge.methods._sparsify import keep_odds, keep_randomly


@merge_method(
    source="Deep et al. 2024, DELLA-Merging, arXiv:2406.11617; mergekit `della`",
    base="required",
    identity=True,
    symmetric=True,
    random=True,
)
def della(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    density: PerModel[Share] = 1.0,
    epsilon: PerModel[Share] = 0.15,
    normalize: bool = True,
    rescale: Rescale = True,
    lambda_: float = 1.0,
    elect: Elect = "weighted",
    consensus: Consensus = "sum",
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """DELLA: drop at random by rank of magnitude, rescale, elect signs, average what agrees.

    Rows, ties and rows of one element: see `keep_odds`.

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        density: the mean probability with which each element is kept.
        epsilon: odds of being kept run from density - epsilon (the smallest of a row) to density +
            epsilon (the largest), both inside (0, 1); not looked at where density is 0 or 1.
        normalize: divide each element by the sum of weights of the models that agree there.
        rescale: true or "l1" matches the L1 norm of the whole task vector per tensor (mergekit's
            default); "inverse" divides each kept element by its probability of being kept
            (the paper: 1 / p of its rank); false does neither.
        lambda_: scale of the merged change.
        elect, consensus: who votes on the sign of an element, and how; see `add_elected`.
        context: seed, tensor name and model keys, which with the element's index key every
            random bit: neither order, threads nor cutting changes one. (mergekit draws from
            torch's global generator, so its masks are others, and no seed is recorded.)

    Returns:
        A new tensor in the dtype of the first model, computed in float32 and rounded once. Where
        nothing changes it has the base's bits.

    Raises:
        MixlabError: shapes differ, density is outside [0, 1], or density +/- epsilon outside
            (0, 1).
    """
    assert base is not None
    assert isinstance(weight, tuple)
    assert isinstance(density, tuple)
    assert isinstance(epsilon, tuple)
    deltas = []
    for index, (tensor, share, room) in enumerate(zip(tensors, density, epsilon, strict=True)):
        delta = tensor - base
        odds = keep_odds(delta, share, room)
        deltas.append(keep(delta, keep_randomly(delta, odds, context, index), rescale, odds))
    return add_elected(
        base,
        deltas,
        weight,
        normalize=normalize,
        lambda_=lambda_,
        elect=elect,
        consensus=consensus,
    )


@merge_method(
    source="Deep et al. 2024, DELLA-Merging, arXiv:2406.11617; mergekit `della_linear`",
    base="required",
    identity=True,
    symmetric=True,
    random=True,
)
def della_linear(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    density: PerModel[Share] = 1.0,
    epsilon: PerModel[Share] = 0.15,
    normalize: bool = False,
    rescale: Rescale = True,
    lambda_: float = 1.0,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """DELLA without an election: drop at random by rank of magnitude, rescale, and sum.

    Rows, ties and rows of one element: see `keep_odds`.

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        density: the mean probability with which each element is kept.
        epsilon: odds of being kept run from density - epsilon (the smallest of a row) to density +
            epsilon (the largest), both inside (0, 1); not looked at where density is 0 or 1.
        normalize: divide by the sum of weights.
        rescale: true or "l1" matches the L1 norm of the whole task vector per tensor (mergekit's
            default); "inverse" divides each kept element by its probability of being kept
            (the paper: 1 / p of its rank); false does neither.
        lambda_: scale of the merged change.
        context: seed, tensor name and model keys, which with the element's index key every
            random bit: neither order, threads nor cutting changes one. (mergekit draws from
            torch's global generator, so its masks are others, and no seed is recorded.)

    Returns:
        A new tensor in the dtype of the first model, computed in float32 and rounded once. Where
        nothing changes it has the base's bits.

    Raises:
        MixlabError: shapes differ, density is outside [0, 1], density +/- epsilon outside
            (0, 1), or weights that are normalised sum to 0.
    """
    assert base is not None
    assert isinstance(weight, tuple)
    assert isinstance(density, tuple)
    assert isinstance(epsilon, tuple)
    total = total_weight("della_linear", weight, normalize)
    deltas = []
    for index, (tensor, share, room) in enumerate(zip(tensors, density, epsilon, strict=True)):
        delta = tensor - base
        odds = keep_odds(delta, share, room)
        deltas.append(keep(delta, keep_randomly(delta, odds, context, index), rescale, odds))
    return add_weighted(base, deltas, weight, total, lambda_)
