"""The text score: the mean over text lines, each weighing the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mixlab.attribute._estimate import Estimate, smallest_detectable, word
from mixlab.attribute._intervals import (
    AGREE,
    cluster_interval,
    p_value,
    t_bounds,
    t_interval,
    unseen_bound,
)
from mixlab.attribute._loss import Contrast, Loss, Recipe, difference_word, shared_seeds
from mixlab.attribute._paired import Line, Paired, pair_items, rows_of

TEXT_LINE = Line("text", "text", (), "Text, mean of constructs")


def text_loss(
    scores: pd.DataFrame,
    recipe: Recipe,
    lines: Sequence[Line],
    *,
    reference: str = "reference",
    margin: float = 3.0,
    split: str = "test",
) -> Loss:
    """Loss of the mean over `lines`, in points; intervals as in `loss_on`, over seeds first."""
    names = [reference, *recipe.runs]
    paired = [pair_items(rows_of(scores, line, split=split), line, names) for line in lines]
    base = [p.column(reference)[:, None] for p in paired]
    arms = [p.table.loc[:, list(recipe.runs)].to_numpy() for p in paired]
    estimate = mean_estimate([b - a for b, a in zip(base, arms, strict=True)], paired)
    return Loss(
        recipe,
        TEXT_LINE,
        estimate,
        word(estimate, margin),
        100 * float(np.mean([b.mean() for b in base])),
        100 * float(np.mean([a.mean() for a in arms])),
    )


def text_contrast(
    scores: pd.DataFrame,
    first: Recipe,
    second: Recipe,
    lines: Sequence[Line],
    *,
    margin: float = 3.0,
    split: str = "test",
) -> Contrast:
    """Text score of `first` minus that of `second`, in points, paired as in `contrast`."""
    a, b = shared_seeds(first, second)
    paired = [pair_items(rows_of(scores, line, split=split), line, [*a, *b]) for line in lines]
    parts = [p.table.loc[:, a].to_numpy() - p.table.loc[:, b].to_numpy() for p in paired]
    estimate = mean_estimate(parts, paired)
    return Contrast(first, second, TEXT_LINE, estimate, difference_word(estimate, margin))


def mean_estimate(parts: Sequence[np.ndarray], paired: Sequence[Paired]) -> Estimate:
    """Mean over lines, each line weighing the same, of item contrasts [items, seeds]; in points.

    Over seeds a t interval of the seeds' macro means; with one seed, or seeds that agree exactly,
    the lines' cluster-robust variances are added, df by Satterthwaite.
    """
    seeds = parts[0].shape[1]
    n = sum(len(p) for p in parts)
    groups = sum(int(p.clusters.nunique()) for p in paired)
    if seeds >= 2:
        by_seed = np.mean([p.mean(axis=0) for p in parts], axis=0)
        estimate = t_interval(by_seed, n_items=n, n_clusters=groups)
        if estimate.se > AGREE:
            return estimate.scaled(100)
    each = [
        cluster_interval(x.mean(axis=1), p.clusters.to_numpy())
        for x, p in zip(parts, paired, strict=True)
    ]
    mean = float(np.mean([e.estimate for e in each]))
    variances = np.array([e.se**2 for e in each]) / len(each) ** 2
    se = float(np.sqrt(variances.sum()))
    spread = sum(v**2 / e.df for v, e in zip(variances, each, strict=True) if v > 0)
    df = float(variances.sum() ** 2 / spread) if spread > 0 else float(groups - len(each))
    how = f"cluster-robust (CR2) interval over {groups} clusters of items"
    if se > AGREE:
        low, high = t_bounds(mean, se, df)
        least, p = smallest_detectable(se, df), p_value(mean, se, df)
    else:
        bound = float(np.mean([unseen_bound(e.n_clusters) for e in each]))
        how = f"no spread seen; mean of exact bounds over {groups} clusters of items"
        low, high, least, p = mean - bound, mean + bound, 2 * bound, p_value(0, 0, 0)
    how = f"seeds agree exactly; {how}" if seeds >= 2 else how
    return Estimate(mean, low, high, se, df, n, groups, seeds, how, least, p).scaled(100)
