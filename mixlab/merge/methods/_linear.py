"""Straight lines: weighted averages, and the path between a reference and a tuned model."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mixlab.merge._method import PerModel, Share, Tensors, merge_method
from mixlab.merge.methods._agree import keep_agreed
from mixlab.spec import MixlabError


@merge_method(
    source="Wortsman et al. 2022, WiSE-FT, arXiv:2109.01903, eq. 1",
    base="required",
    models=(1, 1),
    identity=True,
)
def wise_ft(tensors: Tensors, base: torch.Tensor | None, *, alpha: Share) -> torch.Tensor:
    """theta = (1 - alpha) * base + alpha * tuned: alpha weighs the tuned model.

    Both ends are exact bit for bit, and so is every element in which the two agree.

    Args:
        tensors: the tuned tensor, alone in a sequence; any shape and floating dtype.
        base: the reference, of the same shape.
        alpha: from 0 (the reference) to 1 (the tuned model).

    Returns:
        A new tensor in the dtype of the tuned one, mixed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, alpha is outside [0, 1], or integer tensors differ.
    """
    assert base is not None
    (tuned,) = tensors
    if alpha in (0, 1):
        return tuned if alpha == 1 else base
    return keep_agreed(torch.lerp(base, tuned, alpha), [base, tuned])


@merge_method(
    source="Wortsman et al. 2022, Model soups, arXiv:2203.05482; mergekit `linear`",
    base="none",
    identity=True,
    symmetric=True,
)
def linear(
    tensors: Tensors,
    base: torch.Tensor | None = None,
    *,
    weight: PerModel[float] = 1.0,
    normalize: bool = True,
) -> torch.Tensor:
    """Weighted average: theta = sum_i w_i x_i, divided by sum_i w_i where normalised.

    Where it is normalised, elements in which all models agree stay as they are, bit for bit.

    Args:
        tensors: of one shape, any floating dtypes.
        base: not used; list every model among `tensors`.
        weight: of each model; negative ones are allowed. mergekit has no default.
        normalize: divide by the sum of weights (mergekit's default).

    Returns:
        A new tensor in the dtype of the first, summed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or weights that are normalised sum to 0 (mergekit divides).
    """
    assert isinstance(weight, tuple)
    theta = torch.zeros_like(tensors[0])
    for tensor, share in zip(tensors, shares("linear", weight, normalize), strict=True):
        theta = torch.add(theta, tensor, alpha=share)
    return keep_agreed(theta, tensors) if normalize else theta


def shares(method: str, weight: Sequence[float], normalize: bool) -> list[float]:
    """The weights, divided by their sum where they are normalised.

    Raises:
        MixlabError: they are normalised and sum to 0.
    """
    if not normalize:
        return list(weight)
    total = sum(weight)
    if abs(total) < 1e-12:
        raise MixlabError(
            f"{method}: the weights {list(weight)} sum to 0 and cannot be normalised; change them, "
            "or switch normalization off"
        )
    return [share / total for share in weight]
