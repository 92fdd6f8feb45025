"""Formulas whose rows do not know each other, applied to a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, get_method, kernel
from mixlab.merge.methods._arcee_fusion import choose, importance_of, threshold

# Elements of a part, unless one row is longer.
PART = 1 << 16


@kernel("arcee_fusion", span="tensor")
def arcee_fusion(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Importance of all elements, kept in float32; then the choice."""
    assert base is not None
    if not out.numel():
        return
    (tuned,) = tensors
    importance = torch.empty(out.shape)
    for part, x, reference in float_rows(importance, tuned, base):
        part.copy_(importance_of(x, reference))
    least = threshold(importance.view(-1))
    for (to, x, reference), (chosen, *_) in zip(
        float_rows(out, tuned, base), float_rows(importance), strict=True
    ):
        to.copy_(choose(chosen, least, x, reference))


def write_rows(
    name: str,
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
) -> None:
    """The formula of `name`, where it treats each vector along the last axis by itself."""
    formula: Callable[..., torch.Tensor] = get_method(name).formula
    for to, *parts in float_rows(out, *tensors, *([] if base is None else [base])):
        reference = parts[-1] if base is not None else None
        to.copy_(formula(parts[: len(tensors)], reference, **settings))


def float_rows(out: torch.Tensor, *tensors: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """The same rows of `out`, as they are, and of each of `tensors` in float32."""
    width = max(1, out.shape[-1]) if out.dim() else 1
    rows = max(1, PART // width)
    for to, *parts in zip(*(x.view(-1, width).split(rows) for x in (out, *tensors)), strict=True):
        yield [to, *(part.float() for part in parts)]
