"""Averages in which every element has a weight of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field

from mixlab.merge._method import Context, PerModel, Tensors, merge_method
from mixlab.merge.methods._agree import keep_agreed
from mixlab.spec import MixlabError

NotNegative = Annotated[float, Field(ge=0)]
# Elements of a part.
PART = 1 << 16


@merge_method(
    source="Matena and Raffel 2021, Fisher-weighted averaging, arXiv:2111.09832, eq. 4",
    base="none",
    identity=True,
    symmetric=True,
    extra="importance",
)
def fisher(
    tensors: Tensors,
    base: torch.Tensor | None = None,
    *,
    importance: Tensors,
    weight: PerModel[NotNegative] = 1.0,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """Average weighted by importance: theta = sum_i w_i F_i x_i / sum_i w_i F_i, per element.

    Where no model has both weight and importance, the plain weighted average. Any diagonal serves
    as F: mean squared gradients of the log-likelihood (the paper's), or mean squared inputs of a
    linear map, spread over its rows. The paper's code also raises the first model's F to at least
    1e-6; here no floor is added. It scales F_i by the norm of the whole model's F on request; do so
    beforehand, or by `weight`: theta depends on ratios of w_i F_i alone.

    Args:
        tensors: of one shape, any floating dtypes.
        base: not used; list every model among `tensors`.
        importance: F_i of each model, of the tensors' shape; finite and not negative.
        weight: of each model.

    Returns:
        A new tensor in the dtype of the first, summed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, an importance is negative or not finite, or all weights are 0.
    """
    assert isinstance(weight, tuple)
    if sum(weight) <= 0:
        raise MixlabError("fisher: all weights are 0; give at least one model a positive weight")
    for index, diagonal in enumerate(importance):
        _check(diagonal, context, index)
    # In parts, so that what lies between stays in the cache; every element is on its own.
    flat = [tensor.reshape(-1).split(PART) for tensor in tensors]
    diagonals = [diagonal.reshape(-1).split(PART) for diagonal in importance]
    theta = [
        _average(parts, shares, weight)
        for parts, shares in zip(zip(*flat, strict=True), zip(*diagonals, strict=True), strict=True)
    ]
    return torch.cat(theta).view(tensors[0].shape)


def _average(tensors: Tensors, importance: Tensors, weight: Sequence[float]) -> torch.Tensor:
    # Relative to the largest at each element, so that no F, however small, leaves the float range.
    top = torch.stack(list(importance)).amax(0)
    shares = [
        w * torch.where(top > 0, diagonal / top, 1.0)
        for w, diagonal in zip(weight, importance, strict=True)
    ]
    silent = torch.stack(shares).sum(0) == 0
    shares = [torch.where(silent, w, s) for w, s in zip(weight, shares, strict=True)]
    theta, total = torch.zeros_like(top), torch.zeros_like(top)
    for tensor, share in zip(tensors, shares, strict=True):
        theta = theta + share * tensor
        total = total + share
    return keep_agreed(theta / total, tensors)


def _check(diagonal: torch.Tensor, context: Context, index: int) -> None:
    if diagonal.numel() == 0:
        return
    low, high = diagonal.aminmax()
    if low >= 0 and high < math.inf:
        return
    bad = ~(torch.isfinite(diagonal) & (diagonal >= 0))
    where = f"{context.name}: " if context.name else ""
    raise MixlabError(
        f"{where}fisher: {int(bad.sum())} of {bad.numel()} importances of model {index} are "
        f"negative or not finite, the first {diagonal[bad][0].item()}; expected numbers from 0 up, "
        "such as mean squared gradients"
    )
