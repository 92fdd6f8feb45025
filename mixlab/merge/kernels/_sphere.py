"""Other means on the sphere: the inner products first, then one weighted sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.kernels._by_rows import write_rows
from mixlab.merge.kernels._gram import Matrix, fits_float32, gram, write_combination, write_formula
from mixlab.merge.kernels._linear import PART, keep_agreed_part
from mixlab.merge.methods._linear import shares
from mixlab.merge.methods._nuslerp import LINE, share_of_second

# Below this, the square of a mean of unit vectors is too much rounding of its inner products.
CANCELLED = 1e-4
# A norm that no vector has, so that what has none is not divided by 0.
SMALLEST = 1e-150


@kernel("nuslerp", span="tensor")
def nuslerp(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Flattened tensors; vectors along an axis are left to the formula, by rows if they are."""
    if not (settings["nuslerp_flatten"] or settings["nuslerp_row_wise"]):
        write_rows("nuslerp", tensors, base, out, settings)
        return
    if not settings["nuslerp_flatten"] or torch.equal(tensors[0], tensors[1]):
        write_formula("nuslerp", tensors, base, out, settings)
        return
    products = gram(tensors, base)
    if not np.isfinite(products).all():
        write_formula("nuslerp", tensors, base, out, settings)
        return
    lengths = np.maximum(np.sqrt(products.diagonal()), 1e-7)
    cosine = float(np.clip(products[0, 1] / lengths[0] / lengths[1], -1, 1))
    t = share_of_second(settings["weight"])
    factors = [1 - t, t]
    if not 1 - cosine**2 <= LINE:
        omega = math.acos(cosine)
        factors = [math.sin(share * omega) / math.sin(omega) for share in factors]
    write_combination(tensors, base, factors, out)


@kernel("multislerp", span="tensor")
def multislerp(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """The formula in coordinates of the inputs; vectors that nearly cancel are left to it."""
    weights = np.array(shares("multislerp", settings["weight"], settings["normalize_weights"]))
    if not _all_equal(tensors):
        products = gram(tensors, base)
        norms = np.sqrt(products.diagonal())
        mean = weights / np.maximum(norms + settings["eps"], SMALLEST)
        with np.errstate(all="ignore"):
            square = float(mean @ products @ mean)
        if square > CANCELLED * weights @ weights:
            factors = mean / math.sqrt(square) * (norms @ weights)
            if fits_float32(factors):
                write_combination(tensors, base, factors.tolist(), out)
                return
    write_formula("multislerp", tensors, base, out, settings)


@kernel("karcher", span="tensor")
def karcher(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """The iteration in coordinates of the inputs; vectors that nearly cancel are left to it."""
    products = np.array(np.nan) if _all_equal(tensors) else gram(tensors)
    if np.isfinite(products).all():
        norms = np.sqrt(products.diagonal())
        valid = np.flatnonzero(norms > settings["tol"])
        inverse = 1 / norms[valid]
        cosines = products[np.ix_(valid, valid)] * np.outer(inverse, inverse)
        mean = _karcher(cosines, settings["max_iter"], settings["tol"])
        if mean is not None:
            factors = np.zeros(len(tensors))
            factors[valid] = mean * inverse * norms.mean()
            if fits_float32(factors):
                write_combination(tensors, None, factors.tolist(), out)
                return
    write_formula("karcher", tensors, base, out, settings)


@kernel("model_stock", span="tensor")
def model_stock(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """One ratio for the tensor; one for each filter is left to the formula."""
    if settings["filter_wise"]:
        write_rows("model_stock", tensors, base, out, settings)
        return
    assert base is not None
    count = len(tensors)
    products = gram(tensors, base)
    if not np.isfinite(products).all():
        write_formula("model_stock", tensors, base, out, settings)
        return
    norms = np.sqrt(products.diagonal())
    pairs = combinations(range(count), 2)
    cosine = float(
        np.mean([np.clip(products[i, j] / max(norms[i] * norms[j], 1e-6), -1, 1) for i, j in pairs])
    )
    below = 1 + (count - 1) * cosine
    t = 0.0 if abs(below) < 1e-6 else count * cosine / below
    write_combination(tensors, base, [t / count] * count, out)
    flat, to = [x.view(-1) for x in (base, *tensors)], out.view(-1)
    for at in range(0, to.numel(), PART):
        keep_agreed_part(to[at : at + PART], [x[at : at + PART] for x in flat])


def _karcher(cosines: Matrix, steps: int, tolerance: float) -> Matrix | None:
    """Coordinates of the mean in unit vectors with these inner products, None if ill-defined."""
    count = len(cosines)
    if not count or cosines.mean() <= CANCELLED:
        return None
    mean = np.full(count, 1 / count)
    mean /= math.sqrt(mean @ cosines @ mean)
    for _ in range(steps):
        dots = np.clip(cosines @ mean, -1, 1)
        if dots.min() < CANCELLED - 1:
            return None
        omegas = np.arccos(dots)
        far = omegas > tolerance
        pulls = np.where(far, omegas / np.where(far, np.sin(omegas), 1), 0) / count
        step = pulls - (pulls @ dots) * mean
        length = math.sqrt(max(0.0, float(step @ cosines @ step)))
        if length <= tolerance:
            break
        mean = math.cos(length) * mean + math.sin(length) / length * step
        mean /= math.sqrt(mean @ cosines @ mean)
    return mean


def _all_equal(tensors: Tensors) -> bool:
    return all(torch.equal(tensors[0], x) for x in tensors[1:])
