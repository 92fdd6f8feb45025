"""NearSwap: the other model's value where the two are near."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from mixlab.merge._method import Tensors, merge_method
from mixlab.merge.methods._agree import keep_agreed


@merge_method(
    source="alchemonaut 2024, QuartetAnemoi-70B model card; mergekit `nearswap`",
    base="required",
    models=(1, 1),
    identity=True,
)
def nearswap(
    tensors: Tensors, base: torch.Tensor | None, *, t: Annotated[float, Field(ge=0)]
) -> torch.Tensor:
    """theta = base + w (x - base), w = min(1, t / |x - base|): a step of at most t to the other.

    An element nearer than `t` takes the other model's value, a farther one moves by `t`. Distances
    below 1e-6 count as 1e-6 (mergekit).

    Args:
        tensors: the other tensor, alone in a sequence; any shape and floating dtype.
        base: of the same shape.
        t: the largest step, in units of the weights.

    Returns:
        A new tensor in the dtype of the other one, mixed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or t is negative.
    """
    assert base is not None
    (other,) = tensors
    weight = (other - base).abs().clamp(min=1e-6).reciprocal().mul(t).clamp(max=1)
    return keep_agreed(torch.lerp(base, other, weight), [base, other])
