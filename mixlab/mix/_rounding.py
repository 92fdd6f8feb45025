"""Round cells to whole rows so that every share comes out within one row's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._draw import Cell

_SLACK = 1e-9


@dataclass(frozen=True)
class CellKey:
    """Where a cell stands in the mix."""

    modality: str
    source: str
    format: str


def round_cells(keys: Sequence[CellKey], cells: Sequence[Cell]) -> np.ndarray:
    """Which cells take their extra row, bool [cells].

    Largest remainder in several directions at once (controlled rounding): each cell ends less
    than one row from its target either way, and among those choices a local search over single
    cells and pairs lowers the squared error of the total and of every share: text in the whole,
    sources and formats within their modality.
    """
    size = len(cells)
    gap = np.array([cell.filled - cell.target for cell in cells], dtype=float)
    step = np.array([cell.extra.supervised if cell.extra else 0 for cell in cells], dtype=float)
    targets = np.array([cell.target for cell in cells], dtype=float)
    gram = _gram(keys, targets)
    taken = (gap + step / 2 < 0) & (step > 0)
    while True:
        # Flipping cell i changes its error by delta_i, and e' G e by the terms below.
        delta = np.where(taken, -step, step)
        slope = 2 * delta * (gram @ (gap + step * taken))
        single = slope + delta**2 * np.diag(gram)
        pair = single[:, None] + single[None, :] + 2 * np.outer(delta, delta) * gram
        np.fill_diagonal(pair, single)
        best = np.unravel_index(int(pair.argmin()), (size, size))
        if pair[best] >= -_SLACK * max(1.0, float(np.abs(gram).max())):
            return taken
        for cell in set(best):
            taken[cell] = ~taken[cell]


def _gram(keys: Sequence[CellKey], targets: np.ndarray) -> np.ndarray:
    """G so that e' G e is the sum of squared errors of total and shares, for cell errors e."""
    size = len(keys)
    total = np.ones(size)
    # Each cell's own error, lightly: it decides between choices that serve the shares equally.
    lines = [0.1 * row for row in np.eye(size)] + [total]
    for modality in sorted({key.modality for key in keys}):
        within = np.array([float(key.modality == modality) for key in keys])
        lines.append(within - total * (targets @ within) / targets.sum())
        for field in ("source", "format"):
            for name in sorted({getattr(key, field) for key in keys if key.modality == modality}):
                part = within * [float(getattr(key, field) == name) for key in keys]
                # A share's error in tokens: the part's error less its share of the whole's.
                lines.append(part - within * (targets @ part) / (targets @ within))
    matrix = np.array(lines)
    return matrix.T @ matrix
