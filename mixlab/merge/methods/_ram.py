"""Reinforced agent merging: a change that one model alone made is not diluted by the others."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from mixlab.merge._agree import keep_agreed
from mixlab.merge._method import Tensors, merge_method

Positive = Annotated[float, Field(ge=0)]


@merge_method(
    source="Reinforced Agent Merging 2026, arXiv:2601.13572; mergekit `ram`",
    base="required",
    identity=True,
    symmetric=True,
)
def ram(tensors: Tensors, base: torch.Tensor | None, *, epsilon: Positive = 1e-5) -> torch.Tensor:
    """theta = base + sum_i [|v_i| > epsilon] v_i / max(1, number of such i), v_i = x_i - base.

    Each element moves by the mean over the models that moved it, not over all.

    Args:
        tensors: tuned tensors of one shape, any floating dtypes.
        base: of the same shape.
        epsilon: a move no larger counts as none.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or epsilon is negative.
    """
    return _ram(tensors, base, epsilon, 0.0, 0.0)


@merge_method(
    source="Reinforced Agent Merging 2026, arXiv:2601.13572; mergekit `ramplus_tl`",
    base="required",
    identity=True,
    symmetric=True,
)
def ramplus_tl(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    r: float = 0.1,
    alpha: Positive = 0.2,
    epsilon: Positive = 1e-5,
) -> torch.Tensor:
    """`ram`, where a move that model i alone made counts 1 + r min(alpha, shared_i / unique_i).

    shared_i and unique_i count the elements of this tensor that model i moved together with others
    and alone; with none alone, the ratio counts as `alpha` (mergekit).

    Args:
        tensors: tuned tensors of one shape, any floating dtypes.
        base: of the same shape.
        r: gain of moves of one model.
        alpha: largest ratio.
        epsilon: a move no larger counts as none.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or alpha or epsilon is negative.
    """
    return _ram(tensors, base, epsilon, r, alpha)


def _ram(
    tensors: Tensors, base: torch.Tensor | None, epsilon: float, r: float, alpha: float
) -> torch.Tensor:
    assert base is not None
    movers = torch.zeros_like(base)
    for x in tensors:
        movers += (x - base).abs_() > epsilon
    alone = movers == 1
    theta = torch.zeros_like(base)
    for x in tensors:
        vector = x - base
        vector.mul_(vector.abs() > epsilon)
        moved = vector != 0
        unique = float((moved & alone).sum())
        shared = float(moved.sum()) - unique
        gain = 1 + r * min(alpha, shared / max(unique, 1e-5))
        theta.add_(vector.mul_(torch.where(alone, gain, 1 / movers.clamp(min=1))))
    return keep_agreed(theta.add_(base), [base, *tensors])
