"""The straight lines, part by part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.methods._agree import agreement
from mixlab.merge.methods._linear import shares

# Elements of a part. Shorter ones cost more in calls than they save in traffic.
PART = 1 << 18
# torch.lerp computes these in float32 and rounds once.
DIRECT = (torch.float32, torch.bfloat16, torch.float16)
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32}


@kernel("wise_ft", span="element")
def wise_ft(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """`torch.lerp` in parts; the ends are copies."""
    assert base is not None
    alpha = settings["alpha"]
    if alpha in (0, 1):
        out.copy_(tensors[0] if alpha == 1 else base)
    else:
        write_line(base, tensors[0], alpha, out)


@kernel("linear", span="element")
def linear(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """One model: a copy. Two: a line. More: x_0 + sum_i w_i (x_i - x_0), exact where all agree."""
    normalize = settings["normalize"]
    weights = shares("linear", settings["weight"], normalize)
    if not normalize:
        _write_sum(tensors, weights, out)
    elif len(tensors) == 1:
        out.copy_(tensors[0])
    elif len(tensors) == 2:
        write_line(tensors[0], tensors[1], weights[1], out)
    else:
        _write_average(tensors, weights, out)


@kernel("passthrough", span="element")
def passthrough(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """A copy, or a product in parts."""
    (scale,) = settings["scale"]
    if scale == 1:
        out.copy_(tensors[0])
    else:
        _write_sum(tensors, [scale], out)


def write_line(a: torch.Tensor, b: torch.Tensor, t: float, out: torch.Tensor) -> None:
    """out = a + t (b - a) over contiguous tensors, exact where the two agree."""
    a, b, out = a.view(-1), b.view(-1), out.view(-1)
    if a.dtype == b.dtype == out.dtype and out.dtype in DIRECT:
        for at in range(0, out.numel(), PART):
            p, q, to = a[at : at + PART], b[at : at + PART], out[at : at + PART]
            torch.lerp(p, q, t, out=to)
            keep_agreed_part(to, [p, q])
        return
    x, y = torch.empty(2, min(PART, out.numel())).unbind()
    for at in range(0, out.numel(), PART):
        p, q, to = a[at : at + PART], b[at : at + PART], out[at : at + PART]
        u, v = x[: to.numel()].copy_(p), y[: to.numel()].copy_(q)
        to.copy_(torch.lerp(u, v, t, out=u))
        keep_agreed_part(to, [p, q])


def keep_agreed_part(to: torch.Tensor, parts: Sequence[torch.Tensor]) -> None:
    """`keep_agreed` for sums that are exact there but for -0.0, inf and nan; cheap without them."""
    first = parts[0]
    bits = BITS[first.element_size()]
    # The pattern of -0.0 is the most negative integer; a sum over any inf or nan is not finite.
    if int(first.view(bits).min()) == torch.iinfo(bits).min or not math.isfinite(to.sum()):
        wide = [part.float() for part in parts]
        to.copy_(torch.where(agreement(wide), wide[0], to.float()))


def keep_infinities_part(to: torch.Tensor, parts: Sequence[torch.Tensor]) -> None:
    """Write the infinity that all parts share, where inf - inf made NaN of it."""
    if not math.isfinite(to.sum()):
        wide = [part.float() for part in parts]
        to.copy_(torch.where(agreement(wide) & wide[0].isinf(), wide[0], to.float()))


def _write_average(tensors: Tensors, weights: Sequence[float], out: torch.Tensor) -> None:
    flat, to = [tensor.view(-1) for tensor in tensors], out.view(-1)
    first, total, other = torch.empty(3, min(PART, to.numel())).unbind()
    for at in range(0, to.numel(), PART):
        parts = [tensor[at : at + PART] for tensor in flat]
        size = parts[0].numel()
        x, theta, y = first[:size].copy_(parts[0]), total[:size].copy_(parts[0]), other[:size]
        for part, weight in zip(parts[1:], weights[1:], strict=True):
            theta.add_(y.copy_(part).sub_(x), alpha=weight)
        to[at : at + PART].copy_(theta)
        keep_agreed_part(to[at : at + PART], parts)


def _write_sum(tensors: Tensors, weights: Sequence[float], out: torch.Tensor) -> None:
    flat, to = [tensor.view(-1) for tensor in tensors], out.view(-1)
    total, other = torch.empty(2, min(PART, to.numel())).unbind()
    for at in range(0, to.numel(), PART):
        parts = [tensor[at : at + PART] for tensor in flat]
        size = parts[0].numel()
        theta, y = total[:size].copy_(parts[0]).mul_(weights[0]), other[:size]
        for part, weight in zip(parts[1:], weights[1:], strict=True):
            theta.add_(y.copy_(part), alpha=weight)
        to[at : at + PART].copy_(theta)
