"""Drift and triangles as tidy tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlab.probe._opening import Tensor
from mixlab.probe._streaming import Sums
from mixlab.probe._weights import Comparison

if TYPE_CHECKING:
    import pandas as pd


def drift_table(comparison: Comparison) -> pd.DataFrame:
    """Where and how far the VLM stands from each reference.

    Columns: reference, level (`tensor`, `block`, `module`, `overall`), name, layer, module,
    elements, distance (|V - R| / |R|), cosine, identical (share of elements of equal value),
    rows and rows_identical (of vocabulary tables), low_rank_share (of |V - R|^2, by the 8 strongest
    directions), rank (of the change but for rounding). NaN: not measured, or nothing to divide by.
    `block`, `module` and `overall` hold the matrices of blocks alone.
    """
    import pandas as pd

    models = comparison.models
    rows = []
    for at, folder in enumerate(models.folders[1:]):
        for level, name, layer, module, sums in _groups(comparison):
            if not sums.elements[at]:
                continue
            rank = comparison.low_rank[at].get(name) if level == "tensor" else None
            rows.append(
                {
                    "reference": str(folder),
                    "level": level,
                    "name": name,
                    "layer": layer,
                    "module": module,
                    **measures(sums, at),
                    "low_rank_share": rank.share if rank else np.nan,
                    "rank": float(rank.rank) if rank and rank.rank else np.nan,
                }
            )
    return pd.DataFrame(rows)


def measures(sums: Sums, at: int) -> dict[str, Any]:
    """What the sums say of one reference."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.sqrt(np.float64(sums.gram[at, at]) / sums.squares[at])
        cosine = sums.products[at] / np.sqrt(np.float64(sums.square[at] * sums.squares[at]))
    rows = int(sums.rows[at])
    return {
        "elements": int(sums.elements[at]),
        "distance": float(distance),
        "cosine": float(np.clip(cosine, -1, 1)),
        "identical": sums.equal[at] / sums.elements[at],
        "rows": float(rows) if rows else np.nan,
        "rows_identical": float(sums.rows_equal[at]) if rows else np.nan,
    }


def triangle_table(comparison: Comparison) -> pd.DataFrame:
    """Angles of the triangles that the VLM makes with each two references.

    Columns: first, second (references), corner (`vlm`, `first`, `second`), cosine (of the updates
    from that corner to the other two, over the blocks' matrices), steady (share of tensors whose
    own cosine is under 0.4 in size), first_length, second_length (|V - R|). At the middle of a tree
    the cosine is about 0: what was trained apart from one start went orthogonal ways.
    """
    import pandas as pd

    folders = comparison.models.folders
    rows = []
    for one, two in combinations(range(len(folders) - 1), 2):
        total = comparison.matrices.gram
        for corner in ("vlm", "first", "second"):
            cosines = [corner_cosine(g, one, two, corner) for g in _grams(comparison)]
            rows.append(
                {
                    "first": str(folders[one + 1]),
                    "second": str(folders[two + 1]),
                    "corner": corner,
                    "cosine": corner_cosine(total, one, two, corner),
                    "steady": float(np.mean(np.abs(cosines) < 0.4)),
                    "first_length": float(np.sqrt(total[one, one])),
                    "second_length": float(np.sqrt(total[two, two])),
                }
            )
    columns = [
        "first", "second", "corner", "cosine", "steady", "first_length", "second_length"
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def corner_cosine(gram: np.ndarray, one: int, two: int, corner: str) -> float:
    """Cosine of the updates from a corner to the two others; NaN where one has no length.

    Args:
        gram: products of V - R_i and V - R_j.
        corner: `vlm`, `first` (R_one) or `second` (R_two).
    """
    a, b, ab = gram[one, one], gram[two, two], gram[one, two]
    between = a + b - 2 * ab
    product, lengths = {
        "vlm": (ab, a * b),
        "first": (a - ab, a * between),
        "second": (b - ab, b * between),
    }[corner]
    return float(product / np.sqrt(lengths)) if lengths > 0 else float("nan")


def _grams(comparison: Comparison) -> list[np.ndarray]:
    pairs = zip(comparison.models.tensors, comparison.tensors, strict=True)
    return [sums.gram for tensor, sums in pairs if tensor.matrix]


def _groups(comparison: Comparison) -> Iterator[tuple[str, str, int | None, str | None, Sums]]:
    pairs = list(zip(comparison.models.tensors, comparison.tensors, strict=True))
    for tensor, sums in pairs:
        yield "tensor", tensor.name, tensor.layer, tensor.module, sums
    matrices = [tensor for tensor, _ in pairs if tensor.matrix]
    for layer in sorted({t.layer for t in matrices if t.layer is not None}):
        yield "block", str(layer), layer, None, comparison.sums(_of(layer=layer))
    for module in sorted({t.module for t in matrices}):
        yield "module", module, None, module, comparison.sums(_of(module=module))
    yield "overall", "overall", None, None, comparison.matrices


def _of(*, layer: int | None = None, module: str | None = None) -> Any:
    def chosen(tensor: Tensor) -> bool:
        return tensor.matrix and (tensor.layer == layer or tensor.module == module)

    return chosen
