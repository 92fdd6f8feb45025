"""What several references say together: which stands between the VLM and the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mixlab.probe._streaming import Sums
from mixlab.probe._tables import corner_cosine
from mixlab.probe._thresholds import Thresholds


@dataclass(frozen=True)
class Triangle:
    """The VLM and two references.

    Args:
        pair: indices of the references.
        cosines: at the VLM, the first and the second: of the updates to the two others.
        steady: share of tensors whose own cosine is small, at the first and the second.
        middle: index of the reference that stands in the middle; None where none does.
    """

    pair: tuple[int, int]
    cosines: tuple[float, float, float]
    steady: tuple[float, float]
    middle: int | None


def find_triangles(
    total: np.ndarray, grams: Sequence[np.ndarray], related: Sequence[int], limits: Thresholds
) -> list[Triangle]:
    """A triangle for each two related references.

    Of three models on a tree one is the middle: base of two, or second of a chain of three. What
    was trained apart, or one after the other, went nearly orthogonal ways from there; at the two
    other corners the long way back is shared, and the cosine is large. The VLM is no middle of
    text models, so that a reference in the middle is its ancestor, of these the nearest.

    Args:
        total, grams: products of V - R_i and V - R_j over all matrices, and of each.
        related: indices of references that share weights with the VLM.
    """
    found = []
    for one, two in combinations(related, 2):
        first, second = (corner_cosine(total, one, two, c) for c in ("first", "second"))
        corners = (corner_cosine(total, one, two, "vlm"), first, second)
        steady = (
            _steady(grams, one, two, "first", limits), _steady(grams, one, two, "second", limits)
        )  # fmt: skip
        middle = None
        for at, (index, own, share) in enumerate(
            zip((one, two), corners[1:], steady, strict=True), start=1
        ):
            others = [c for i, c in enumerate(corners) if i != at]
            if (
                -limits.backward <= own <= limits.orthogonal
                and share >= limits.steady
                and _bent(others, limits)
            ):
                middle = index
        found.append(Triangle((one, two), corners, steady, middle))
    return found


def nearest_ancestor(triangles: Sequence[Triangle]) -> int | None:
    """The reference that is a middle, and no corner of a triangle with another middle."""
    middles = {t.middle for t in triangles if t.middle is not None}
    outer = {i for t in triangles if t.middle is not None for i in t.pair if i != t.middle}
    left = middles - outer
    return left.pop() if len(left) == 1 else None


def growth(total: Sums, middle: int, leaf: int) -> tuple[float, float]:
    """<S,M>/|M|^2 and <S,M>/|S|^2: the start's is 1 if its update is orthogonal to it."""
    gram = total.gram
    between = gram[middle, middle] + gram[leaf, leaf] - 2 * gram[middle, leaf]
    product = (total.squares[middle] + total.squares[leaf] - between) / 2
    return float(product / total.squares[middle]), float(product / total.squares[leaf])


def later(rates: tuple[float, float], limits: Thresholds) -> str | None:
    """`leaf`: the leaf was trained from the middle; `middle`: the reverse; None: neither fits."""
    for start, end, name in ((rates[0], rates[1], "leaf"), (rates[1], rates[0], "middle")):
        if end < 1 and abs(1 - start) <= limits.growth * (1 - end):
            return name
    return None


def _bent(cosines: Sequence[float], limits: Thresholds) -> bool:
    return min(cosines) >= limits.bent


def _steady(
    grams: Sequence[np.ndarray], one: int, two: int, corner: str, limits: Thresholds
) -> float:
    cosines = [corner_cosine(gram, one, two, corner) for gram in grams]
    told = [c for c in cosines if not math.isnan(c)]
    return sum(abs(c) < limits.steady_cosine for c in told) / len(told) if told else math.nan
