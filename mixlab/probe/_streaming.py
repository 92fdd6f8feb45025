"""Sums over the elements of one tensor in a VLM and its references, taken part by part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from mixlab.checkpoint import TensorSource
from mixlab.probe._grid import effective_format, spacing
from mixlab.probe._opening import Tensor
from mixlab.probe._reading import PART, parts, read_float

# A rounded value stands within half a spacing; the product of factors is not exact.
_SLACK = 1.001


@dataclass
class Sums:
    """float64 sums over elements; the index is the reference's.

    Args:
        elements: summed over, for each reference (rows of a vocabulary may differ).
        square: of the VLM's values, over the same elements.
        squares, products: of the reference's values, and of both.
        gram: products of the differences V - R_i and V - R_j; the diagonal is |V - R_i|^2.
        equal: elements of equal value.
        near: elements whose difference rounding from one format to the other explains.
        grid: energy that such rounding leaves: sum of spacing^2 / 12 of the coarser side.
        finer: elements that the VLM stores more finely, less those it stores more coarsely.
        rows: rows of a vocabulary table compared, and those of them wholly equal.
    """

    references: int
    elements: np.ndarray = field(init=False)
    square: np.ndarray = field(init=False)
    squares: np.ndarray = field(init=False)
    products: np.ndarray = field(init=False)
    gram: np.ndarray = field(init=False)
    equal: np.ndarray = field(init=False)
    near: np.ndarray = field(init=False)
    grid: np.ndarray = field(init=False)
    finer: np.ndarray = field(init=False)
    rows: np.ndarray = field(init=False)
    rows_equal: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        for name in ("elements", "equal", "near", "finer", "rows", "rows_equal"):
            setattr(self, name, np.zeros(self.references, np.int64))
        for name in ("square", "squares", "products", "grid"):
            setattr(self, name, np.zeros(self.references))
        self.gram = np.zeros((self.references, self.references))

    def __add__(self, other: Sums) -> Sums:
        """Sums over the elements of both."""
        both = Sums(self.references)
        for name in vars(both):
            if name != "references":
                setattr(both, name, getattr(self, name) + getattr(other, name))
        return both


def sum_tensor(sources: Sequence[TensorSource], tensor: Tensor) -> Sums:
    """Sums over a tensor that all models have in one shape, in one pass through every file."""
    sums = Sums(len(tensor.names))
    for start, count in parts(math.prod(tensor.shape), PART):
        mine = read_float(sources[0], tensor.name, start, count)
        form = effective_format(mine, sources[0].entries[tensor.name].dtype)
        differences = torch.empty((len(tensor.names), count), dtype=torch.float64)
        for at, (source, name) in enumerate(zip(sources[1:], tensor.names, strict=True)):
            if name is None:
                differences[at] = 0
                continue
            its = read_float(source, name, start, count)
            add_values(sums, at, mine, form, its, source.entries[name].dtype, differences[at])
        sums.gram += (differences @ differences.T).numpy()
    return sums


def add_values(
    sums: Sums,
    at: int,
    mine: torch.Tensor,
    form: str,
    its: torch.Tensor,
    dtype: str,
    difference: torch.Tensor,
) -> None:
    """Add one part of reference `at`; `difference` (float64) is filled with V - R."""
    v, r = mine.double(), its.double()
    torch.sub(v, r, out=difference)
    sums.elements[at] += mine.numel()
    sums.square[at] += float(v @ v)
    sums.squares[at] += float(r @ r)
    sums.products[at] += float(v @ r)
    equal = mine == its
    sums.equal[at] += int(torch.count_nonzero(equal))
    other = effective_format(its, dtype)
    if form == other:
        sums.near[at] += int(torch.count_nonzero(equal))
        return
    a, b = spacing(mine, form), spacing(its, other)
    sums.near[at] += int((difference.abs() <= (a + b).double() * (0.5 * _SLACK)).sum())
    sums.finer[at] += int((a < b).sum()) - int((a > b).sum())
    sums.grid[at] += float((torch.maximum(a, b).double() ** 2).sum() / 12)
