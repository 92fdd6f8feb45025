"""Trees of orthogonal steps, whose corners are known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from mixlab.probe import Thresholds
from mixlab.probe._tables import corner_cosine
from mixlab.probe._triangle import find_triangles, later, nearest_ancestor

LIMITS = Thresholds()


def _gram(v: np.ndarray, references: list[np.ndarray]) -> np.ndarray:
    differences = np.stack([v - r for r in references])
    return differences @ differences.T


def _nearest(v: np.ndarray, references: list[np.ndarray]) -> int | None:
    gram = _gram(v, references)
    triangles = find_triangles(gram, [gram], range(len(references)), LIMITS)
    return nearest_ancestor(triangles)


def test_corners_of_a_star() -> None:
    base, s, v = np.zeros(3), np.array([3.0, 0, 0]), np.array([0, 4.0, 0])
    gram = _gram(v, [base, s])
    assert corner_cosine(gram, 0, 1, "first") == 0
    assert corner_cosine(gram, 0, 1, "second") == pytest.approx(3 / 5)
    assert corner_cosine(gram, 0, 1, "vlm") == pytest.approx(4 / 5)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_the_middle_of_star_and_chain(order: list[int]) -> None:
    one, two, three, four = np.eye(4)
    star = [np.zeros(4), one, two]
    assert order[_nearest(three, [star[i] for i in order])] == 0  # type: ignore[index]
    # first > second > third > VLM, and a sibling off the second: the third is the nearest.
    chain = [one * 0, one, one + two]
    assert order[_nearest(one + two + three, [chain[i] for i in order])] == 2  # type: ignore[index]
    assert _nearest(one + two, [one * 0, one, one + four]) == 1


def test_siblings_without_their_base_have_no_middle() -> None:
    one, two, three, _ = np.eye(4)
    assert _nearest(three, [one, two]) is None


def test_a_reference_close_to_another_is_no_judge() -> None:
    one, _, three, _ = np.eye(4)
    assert _nearest(three, [np.zeros(4), 0.1 * one]) is None
    assert _nearest(0.1 * three, [np.zeros(4), one]) is None


def test_a_shared_update_makes_no_corner_the_middle() -> None:
    one, two, three, _ = np.eye(4)
    # At the sibling's corner the others go back the same way: the cosine there is negative.
    v, s = 2 * (one + two), one + 0.3 * three
    assert _nearest(v, [np.zeros(4), s]) is None


def test_the_later_of_two_is_the_longer() -> None:
    start, step = np.array([10.0, 0]), np.array([0, 2.0])
    end = start + step
    rates = (end @ start / (start @ start), end @ start / (end @ end))
    assert later(rates, LIMITS) == "leaf"
    assert later(rates[::-1], LIMITS) == "middle"
    # Weight decay shortens: lengths then tell nothing.
    shrunk = 0.98 * start + step
    rates = (shrunk @ start / (start @ start), shrunk @ start / (shrunk @ shrunk))
    assert later(rates, LIMITS) is None
