"""Items lost and gained between models, and how many change between equal recipes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from mixlab.attribute._loss import Recipe
from mixlab.attribute._paired import Line, pair_items, rows_of


@dataclass(frozen=True)
class Churn:
    """Points of items lost (right before, wrong after) and gained against the reference, mean over
    seeds, beside `floor`: points of items that differ one way between two equal recipes of other
    seeds (None with one seed). `net` is lost minus gained."""

    recipe: Recipe
    line: Line
    lost: float
    gained: float
    floor: float | None
    n_items: int
    n_pairs: int

    @property
    def net(self) -> float:
        """Net change in points (positive: lost)."""
        return self.lost - self.gained


def churn(
    scores: pd.DataFrame,
    recipe: Recipe,
    line: Line,
    *,
    reference: str = "reference",
    split: str = "test",
) -> Churn:
    """Items lost and gained, an item being right at a score of 0.5 or more.

    The floor is half the share of items that two seeds of one recipe answer differently, mean
    over pairs of seeds: what a retraining alone loses (and gains), as DESIGN's "Statistics" asks.
    """
    paired = pair_items(rows_of(scores, line, split=split), line, [reference, *recipe.runs])
    right = paired.table.to_numpy() >= 0.5
    base, arms = right[:, :1], right[:, 1:]
    pairs = list(combinations(range(arms.shape[1]), 2))
    floor = None
    if pairs:
        floor = 50 * float(np.mean([np.mean(arms[:, a] != arms[:, b]) for a, b in pairs]))
    lost, gained = 100 * float((base & ~arms).mean()), 100 * float((~base & arms).mean())
    return Churn(recipe, line, lost, gained, floor, len(right), len(pairs))
