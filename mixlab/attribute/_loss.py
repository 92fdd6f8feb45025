"""How much a recipe lost against the reference, and how recipes differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mixlab.attribute._estimate import Estimate, word
from mixlab.attribute._intervals import (
    AGREE,
    cluster_interval,
    crossed_interval,
    t_interval,
    unseen_bound,
)
from mixlab.attribute._paired import (
    Line,
    Paired,
    UnpairedError,
    item_name,
    pair_items,
    rows_of,
)


@dataclass(frozen=True)
class Recipe:
    """One recipe and its runs: `seeds[i]` is the training seed of `runs[i]`."""

    key: str
    label: str
    kind: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Loss:
    """Loss of one recipe on one line, in points (positive: points lost), and what it amounts to."""

    recipe: Recipe
    line: Line
    estimate: Estimate
    word: str
    reference: float
    score: float


@dataclass(frozen=True)
class Contrast:
    """Score of `first` minus score of `second`, in points, paired by seed and item."""

    first: Recipe
    second: Recipe
    line: Line
    estimate: Estimate
    word: str


def recipes(runs: pd.DataFrame) -> list[Recipe]:
    """Group the runs of a study by recipe digest, seeds in order. Raises on a repeated seed."""
    found = []
    for key, group in runs.groupby("recipe", sort=False):
        group = group.sort_values("seed")
        seeds = tuple(int(s) for s in group["seed"])
        if len(set(seeds)) < len(seeds):
            raise UnpairedError(
                f"recipe {key} has seeds {list(seeds)}: a seed stands there twice, so its runs "
                "would count as replicates; keep one run a seed"
            )
        names = tuple(str(r) for r in group["run"])
        first = group.iloc[0]
        found.append(Recipe(str(key), str(first["arm"]), str(first["kind"]), names, seeds))
    return found


def _interval(table: np.ndarray, paired: Paired) -> Estimate:
    """Primary interval of item contrasts `table` [items, seeds], score units."""
    clusters = paired.clusters.to_numpy()
    n, groups = len(clusters), int(paired.clusters.nunique())
    if table.shape[1] >= 2:
        estimate = t_interval(table.mean(axis=0), n_items=n, n_clusters=groups)
        estimate = replace(estimate, over_items=crossed_interval(table, clusters))
    else:
        estimate = cluster_interval(table[:, 0], clusters)
    if estimate.se > AGREE or groups < 2:
        return estimate
    wide = estimate.over_items
    if wide is not None and wide.se > AGREE:
        return replace(wide, method=f"seeds agree exactly; {wide.method}", over_items=wide)
    return _without_spread(estimate, groups)


def _without_spread(estimate: Estimate, groups: int) -> Estimate:
    """An interval for contrasts that are all equal, where no variance can be estimated.

    The bound says how large a share of clusters may differ although none did (Clopper-Pearson).
    """
    bound = unseen_bound(groups)
    low, high = estimate.estimate - bound, estimate.estimate + bound
    method = f"no spread seen; exact bound over {groups} clusters of items"
    return replace(estimate, low=low, high=high, method=method, detectable=2 * bound)


def loss_on(
    scores: pd.DataFrame,
    recipe: Recipe,
    line: Line,
    *,
    reference: str = "reference",
    margin: float = 3.0,
    split: str = "test",
    permuted: bool = False,
) -> Loss:
    """Loss of a recipe on one line: reference minus arm, paired by item, in points.

    `scores` holds one protocol a model (`own_best`). With two seeds or more the interval is
    Student's t over the seeds' mean contrasts (df S - 1; the one that speaks of recipes), with the
    Satterthwaite interval that also generalises over items beside it; with one seed it is a
    cluster-robust interval over items and speaks of two checkpoints, never of two recipes.
    Raises `UnpairedError` on missing or repeated items.
    """
    rows = rows_of(scores, line, split=split, permuted=permuted)
    paired = pair_items(rows, line, [reference, *recipe.runs])
    base = paired.column(reference)
    arms = paired.table.loc[:, list(recipe.runs)].to_numpy()
    estimate = _interval(base[:, None] - arms, paired).scaled(100)
    verdict = word(estimate, margin)
    return Loss(recipe, line, estimate, verdict, 100 * base.mean(), 100 * float(arms.mean()))


def contrast(
    scores: pd.DataFrame,
    first: Recipe,
    second: Recipe,
    line: Line,
    *,
    margin: float = 3.0,
    split: str = "test",
) -> Contrast:
    """Score of `first` minus score of `second` in points, paired by training seed and by item.

    Only seeds that both recipes have are used. The word is that of the *difference*: `higher`,
    `lower`, `same` (equivalent within the margin) or `undetermined`. Intervals as in `loss_on`.
    """
    a, b = shared_seeds(first, second)
    paired = pair_items(rows_of(scores, line, split=split), line, [*a, *b])
    table = paired.table.loc[:, a].to_numpy() - paired.table.loc[:, b].to_numpy()
    estimate = _interval(table, paired).scaled(100)
    return Contrast(first, second, line, estimate, difference_word(estimate, margin))


def shared_seeds(first: Recipe, second: Recipe) -> tuple[list[str], list[str]]:
    """Runs of both recipes at the seeds that both have, in the same order of seeds."""
    common = [s for s in first.seeds if s in second.seeds]
    if not common:
        raise UnpairedError(
            f"{first.label} has seeds {list(first.seeds)}, {second.label} has "
            f"{list(second.seeds)}: no seed in common, so they cannot be paired; run both with the "
            "same seeds"
        )
    a = [first.runs[first.seeds.index(s)] for s in common]
    return a, [second.runs[second.seeds.index(s)] for s in common]


def difference_word(estimate: Estimate, margin: float) -> str:
    """`higher`, `lower`, `same` (equivalent within the margin) or `undetermined`."""
    names = {"loss": "higher", "gain": "lower", "no loss": "same"}
    found = word(estimate, margin)
    return names.get(found, found)


def score_of(
    scores: pd.DataFrame,
    recipe: Recipe,
    line: Line,
    *,
    split: str = "test",
    permuted: bool = False,
) -> Estimate:
    """A recipe's own score on one line, in points (0 to 100); intervals as in `loss_on`."""
    paired = pair_items(rows_of(scores, line, split=split, permuted=permuted), line, recipe.runs)
    return _interval(paired.table.to_numpy(), paired).scaled(100)


def above_floor(
    scores: pd.DataFrame, recipe: Recipe, line: Line, *, split: str = "test"
) -> Estimate:
    """Score with the right images minus score with images permuted within question type, points.

    The permuted score is what a model gets without seeing: the floor of the vision construct.
    """
    seen = pair_items(rows_of(scores, line, split=split), line, recipe.runs)
    blind = pair_items(rows_of(scores, line, split=split, permuted=True), line, recipe.runs)
    if not seen.table.index.equals(blind.table.index):
        lost = seen.table.index.symmetric_difference(blind.table.index)
        raise UnpairedError(
            f"{line.label}: {len(lost)} items lack one of the conditions image and permuted, for "
            f"example {[item_name(i) for i in lost[:5]]}; score both on the same items"
        )
    return _interval(seen.table.to_numpy() - blind.table.to_numpy(), seen).scaled(100)
