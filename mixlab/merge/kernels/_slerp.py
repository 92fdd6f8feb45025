"""Spherical interpolation in two passes: the angle, then the arc."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.kernels._gram import gram, write_combination, write_formula
from mixlab.merge.kernels._linear import write_line
from mixlab.merge.methods._slerp import NO_DIRECTION, is_line


@kernel("slerp", span="tensor")
def slerp(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Norms and product first, then one weighted sum with two constant factors."""
    assert base is not None
    t = settings["t"]
    if t in (0, 1):
        out.copy_(tensors[0] if t == 1 else base)
        return
    cosine = angle_cosine(base, tensors[0])
    if is_line(cosine, settings["antiparallel"], context):
        write_line(base, tensors[0], t, out)
        return
    if math.isnan(cosine):
        write_formula("slerp", tensors, base, out, settings)
        return
    omega = math.acos(cosine)
    factors = [math.sin(share * omega) / math.sin(omega) for share in (1 - t, t)]
    write_combination([base, tensors[0]], None, factors, out)


def angle_cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Cosine between two tensors; 1 if neither has a direction, 0 if one has none, NaN if one is
    not finite."""
    products = gram([a, b]).tolist()
    lengths = math.sqrt(products[0][0]), math.sqrt(products[1][1])
    still = [length <= NO_DIRECTION for length in lengths]
    if any(still):
        return 1.0 if all(still) else 0.0
    if not all(map(math.isfinite, lengths)):
        return math.nan
    return min(1.0, max(-1.0, products[0][1] / lengths[0] / lengths[1]))
