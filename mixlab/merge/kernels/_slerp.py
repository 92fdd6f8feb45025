"""Spherical interpolation in two passes: the angle, then the arc."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.kernels._linear import write_line
from mixlab.merge.methods._slerp import NO_DIRECTION, is_line

# Sums run over blocks of this length, from the start of the tensor, whatever the parts are.
BLOCK = 4096
# Elements of a part: three float32 scratch parts stay in a 1 MiB second-level cache.
PART = 16 * BLOCK


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
    a, b, to = base.view(-1), tensors[0].view(-1), out.view(-1)
    cosine = angle_cosine(a, b)
    if is_line(cosine, settings["antiparallel"], context):
        write_line(a, b, t, to)
        return
    omega = math.acos(cosine)
    from_a, from_b = math.sin((1 - t) * omega), math.sin(t * omega)
    x, y = torch.empty(2, min(PART, to.numel())).unbind()
    for at in range(0, to.numel(), PART):
        size = min(PART, to.numel() - at)
        u, v = x[:size].copy_(a[at : at + size]), y[:size].copy_(b[at : at + size])
        u.mul_(from_a / math.sin(omega)).add_(v, alpha=from_b / math.sin(omega))
        to[at : at + size].copy_(u)


def angle_cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Cosine between two flat tensors; 1 if neither has a direction, 0 if one has none."""
    aa, bb, ab = _products(a, b, torch.float32)
    if not math.isfinite(aa + bb + ab):
        # Squares beyond float32; if it is the inputs that are not finite, so is the result.
        aa, bb, ab = _products(a, b, torch.float64)
    lengths = math.sqrt(aa), math.sqrt(bb)
    if min(lengths) <= NO_DIRECTION:
        return 1.0 if max(lengths) <= NO_DIRECTION else 0.0
    cosine = ab / lengths[0] / lengths[1]
    return cosine if math.isnan(cosine) else min(1.0, max(-1.0, cosine))


def _products(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> tuple[float, float, float]:
    """(a.a, b.b, a.b): each block summed in `dtype`, the blocks exactly."""
    scratch = torch.empty(3, PART if a.numel() > BLOCK else BLOCK, dtype=dtype)
    x, y, product = scratch.unbind()
    sums: tuple[list[float], list[float], list[float]] = ([], [], [])
    for at in range(0, a.numel(), PART):
        size = min(PART, a.numel() - at)
        padded = -(-size // BLOCK) * BLOCK
        x[:size].copy_(a[at : at + size])
        y[:size].copy_(b[at : at + size])
        x[size:padded] = 0
        y[size:padded] = 0
        for (left, right), into in zip(((x, x), (y, y), (x, y)), sums, strict=True):
            torch.mul(left[:padded], right[:padded], out=product[:padded])
            into.extend(product[:padded].view(-1, BLOCK).sum(1).tolist())
    try:
        return math.fsum(sums[0]), math.fsum(sums[1]), math.fsum(sums[2])
    except (OverflowError, ValueError):
        return math.nan, math.nan, math.nan
