"""Methods whose result is a weighted sum of the inputs, with weights from their inner products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mixlab.merge._method import Context, Tensors, get_method

Matrix = npt.NDArray[np.float64]
# Sums run over blocks of this length from the start of the tensor, whatever parts and threads are.
BLOCK = 4096
# Elements of all scratch together. Shorter parts cost more in calls than they save in traffic.
SCRATCH = 192 * BLOCK


def gram(tensors: Tensors, base: torch.Tensor | None = None) -> Matrix:
    """Inner products of all pairs of x_i - base (of x_i without a base).

    Each block is summed in float32, the blocks exactly: good to 2e-7 of the product of norms.
    """
    products = _gram(tensors, base, torch.float32)
    # Squares beyond float32; if it is the inputs that are not finite, so is the result.
    return products if np.isfinite(products).all() else _gram(tensors, base, torch.float64)


def write_combination(
    tensors: Tensors, base: torch.Tensor | None, factors: Sequence[float], out: torch.Tensor
) -> None:
    """out = base + sum_i f_i (x_i - base), or sum_i f_i x_i without a base."""
    flat, to = [x.view(-1) for x in tensors], out.view(-1)
    start = None if base is None else base.view(-1)
    part = SCRATCH // 3
    total, other, zero = torch.empty(3, min(part, to.numel())).unbind()
    for at in range(0, to.numel(), part):
        size = min(part, to.numel() - at)
        theta, y = total[:size], other[:size]
        if start is None:
            theta.copy_(flat[0][at : at + size]).mul_(factors[0])
            rest = list(zip(flat, factors, strict=True))[1:]
        else:
            theta.copy_(start[at : at + size])
            zero[:size].copy_(theta)
            rest = list(zip(flat, factors, strict=True))
        for x, factor in rest:
            y.copy_(x[at : at + size])
            if start is not None:
                y.sub_(zero[:size])
            theta.add_(y, alpha=factor)
        to[at : at + size].copy_(theta)


def fits_float32(factors: Matrix) -> bool:
    """Whether torch takes these as factors of float32 tensors: it refuses what would overflow."""
    return bool((np.abs(factors) <= np.finfo(np.float32).max).all())


def exact_sum(parts: Sequence[float]) -> float:
    """The sum, rounded once; nan where it is not finite."""
    try:
        return math.fsum(parts)
    except (OverflowError, ValueError):
        return math.nan


def write_formula(
    name: str,
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
) -> None:
    """The definition, for cases that the fast path leaves to it."""
    found = get_method(name).apply(tensors, base, settings, Context(), dtype=out.dtype, plain=True)
    out.copy_(found)


def _gram(tensors: Tensors, base: torch.Tensor | None, dtype: torch.dtype) -> Matrix:
    count, flat = len(tensors), [x.view(-1) for x in tensors]
    numel = flat[0].numel()
    part = max(1, SCRATCH // BLOCK // (count + 1)) * BLOCK
    room = -(-min(part, numel) // BLOCK) * BLOCK
    *vectors, product = torch.empty(count + 1, room, dtype=dtype).unbind()
    pairs = [(i, j) for i in range(count) for j in range(i + 1)]
    sums: list[list[float]] = [[] for _ in pairs]
    for at in range(0, numel, part):
        size = min(part, numel - at)
        padded = -(-size // BLOCK) * BLOCK
        views = [v[:padded] for v in vectors]
        if base is not None:
            product[:size].copy_(base.view(-1)[at : at + size])
        for view, x in zip(views, flat, strict=True):
            view[:size].copy_(x[at : at + size])
            if base is not None:
                view[:size].sub_(product[:size])
            view[size:] = 0
        to = product[:padded]
        rows = to.view(-1, BLOCK)
        for (i, j), into in zip(pairs, sums, strict=True):
            torch.mul(views[i], views[j], out=to)
            into.extend(rows.sum(1).tolist())
    matrix = np.empty((count, count))
    for (i, j), parts in zip(pairs, sums, strict=True):
        matrix[i, j] = matrix[j, i] = exact_sum(parts)
    return matrix
