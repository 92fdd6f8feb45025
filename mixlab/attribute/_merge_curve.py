"""Merge curves: text recovery R(alpha), vision retention V(alpha), joint recovery J and J0.

theta = (1 - alpha) * reference + alpha * tuned; alpha 1 is the VLM untouched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mixlab.attribute._estimate import Estimate, smallest_detectable
from mixlab.attribute._intervals import AGREE, fieller, t_bounds, t_interval
from mixlab.attribute._loss import Recipe
from mixlab.attribute._paired import Line, UnpairedError, pair_items, rows_of
from mixlab.attribute._recovery import Array, Block, macro, macro_covariance, resample

DRAWS = 2000


def straight_chord(vision_at_reference: float) -> float:
    """J0 = 1 / (2 - V(0)): J where R falls straight from 1 to 0, V rises from V(0) to 1.

    R = 1 - alpha meets V = V(0) + alpha (1 - V(0)) at alpha = (1 - V(0)) / (2 - V(0)). It is 0.5
    only where the reference is blind (V(0) = 0). A yardstick, not a null (DESIGN, "Merge curves").
    V(0) is clipped to [0, 1].
    """
    return 1 / (2 - min(max(vision_at_reference, 0.0), 1.0))


@dataclass(frozen=True)
class Point:
    """One alpha: R and V (ratios) with intervals, or None where undefined; scores in points."""

    alpha: float
    recovery: Estimate | None
    retention: Estimate | None
    text: float
    vision: float


@dataclass(frozen=True)
class Joint:
    """J on test at the alpha that dev chose in each run, J0 of the same runs, and J - J0."""

    joint: Estimate
    chord: Estimate
    excess: Estimate
    alphas: tuple[float, ...]
    text_back: float
    vision_cost: float


@dataclass(frozen=True)
class MergeCurve:
    """A recipe's merge curve for given text lines. `why` says what is undefined, if anything."""

    recipe: Recipe
    lines: tuple[Line, ...]
    points: tuple[Point, ...]
    loss: Estimate
    clears: Estimate
    joint: Joint | None
    why: str


@dataclass(frozen=True)
class _Run:
    """One run on one split; columns: [reference, VLM, alpha...] and [floor, VLM, alpha...]."""

    text: list[Block]
    vision: list[Block]

    def ratios(self, text: Array, vision: Array) -> tuple[Array, Array]:
        """R and V over alpha from macro scores [..., columns]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            r = (text[..., 2:] - text[..., 1:2]) / (text[..., 0:1] - text[..., 1:2])
            v = (vision[..., 2:] - vision[..., 0:1]) / (vision[..., 1:2] - vision[..., 0:1])
        return r, v


def _block(rows: pd.DataFrame, line: Line, names: list[str]) -> Block:
    paired = pair_items(rows, line, names)
    _, codes = np.unique(paired.clusters.to_numpy().astype(str), return_inverse=True)
    return Block(paired.table.to_numpy(dtype=float), codes)


def _states(mine: pd.DataFrame) -> list[str]:
    """The state of each row: `VLM`, `permuted images`, or `alpha a`."""
    plain = (mine["operator"].isna() | (mine["operator"] == "none")).to_numpy()
    permuted = (mine["condition"] == "permuted").to_numpy()
    alpha = mine["alpha"].to_numpy(dtype=float)
    return [
        f"alpha {round(a, 6):g}" if not p else ("permuted images" if q else "VLM")
        for p, q, a in zip(plain, permuted, alpha, strict=True)
    ]


def _gather(
    scores: pd.DataFrame,
    run: str,
    alphas: Sequence[float],
    text: Sequence[Line],
    vision: Line,
    reference: str,
    split: str,
) -> _Run:
    mine = scores.loc[(scores["run"] == run) & (scores["split"] == split)]
    mine = mine.assign(run=_states(mine))
    base = scores.loc[scores["run"] == reference]
    names = ["VLM", *[f"alpha {round(a, 6):g}" for a in alphas]]
    blocks = []
    for line in text:
        anchor = rows_of(base, line, split=split).assign(run="reference")
        part = pd.concat([anchor, rows_of(mine, line, split=split, operator=None)])
        blocks.append(_block(part, line, ["reference", *names]))
    floor = rows_of(mine, vision, split=split, permuted=True)
    seen = rows_of(mine, vision, split=split, operator=None)
    sight = _block(pd.concat([floor, seen]), vision, ["permuted images", *names])
    return _Run(blocks, [sight])


def alphas_of(scores: pd.DataFrame, run: str) -> list[float]:
    """The alphas at which a run was merged and scored, rising."""
    mine = scores.loc[(scores["run"] == run) & (scores["operator"] == "merge")]
    return sorted({round(float(a), 6) for a in mine["alpha"].dropna().unique()})


def _ratio(top: Array, bottom: Array, cov: Array | None, shape: Estimate) -> Estimate:
    """Fieller interval of mean(top)/mean(bottom): over seeds, or from the item covariance `cov`."""
    n, d = float(np.mean(top)), float(np.mean(bottom))
    seeds = len(top)
    if seeds >= 2:
        c = np.cov(top, bottom, ddof=1) / seeds
        df, how = float(seeds - 1), f"Fieller interval over {seeds} seeds"
    elif cov is not None:
        c, df, how = cov, shape.df, "Fieller interval over clusters of items"
    else:
        raise ValueError("one seed needs the covariance of its items")
    low, high = fieller(n, d, c[0, 0], c[1, 1], c[0, 1], df)
    ratio = n / d
    se = math.sqrt(max(c[0, 0] - 2 * ratio * c[0, 1] + ratio**2 * c[1, 1], 0)) / abs(d)
    return replace(
        shape,
        estimate=ratio,
        low=low,
        high=high,
        se=se,
        df=df,
        method=how,
        detectable=smallest_detectable(se, df),
        p=math.nan,
        unit="ratio",
        n_seeds=seeds,
        over_items=None,
    )


def _difference(values: Array, cov: Array | None, df: float, n: int, groups: int) -> Estimate:
    """A difference of scores in points: t over seeds that differ, else from the item variance."""
    if len(values) >= 2:
        estimate = t_interval(values, n_items=n, n_clusters=groups)
        if estimate.se > AGREE:
            return estimate.scaled(100)
    mean = float(np.mean(values))
    se = math.sqrt(float(cov[0, 0])) if cov is not None else math.inf
    low, high = t_bounds(mean, se, df)
    how = f"cluster-robust (CR2) interval over {groups} clusters of items"
    least = smallest_detectable(se, df)
    return Estimate(mean, low, high, se, df, n, groups, len(values), how, least).scaled(100)


def _item_cov(blocks: list[Block], plus: list[tuple[int, int]]) -> Array:
    """Covariance of the differences column a - column b for (a, b) in `plus`, from items."""
    made = [
        Block(np.stack([b.values[:, i] - b.values[:, j] for i, j in plus], axis=1), b.codes)
        for b in blocks
    ]
    return macro_covariance(made)[0]


def merge_curve(
    scores: pd.DataFrame,
    recipe: Recipe,
    text: Sequence[Line],
    vision: Line,
    *,
    reference: str = "reference",
    margin: float = 3.0,
    seed: int = 0,
) -> MergeCurve:
    """R and V over alpha on test, and J with alpha chosen on dev (DESIGN, "Merge curves").

    `scores` holds one protocol a model state. The text score s is the mean over `text`, each line
    weighing the same; v is the score of `vision`; the floor is the VLM with permuted images.
    R(alpha) = (s(theta_alpha) - s(VLM)) / (s(anc) - s(VLM)) is defined only where the upper bound
    of s(VLM) - s(anc) lies below -margin (points); V(alpha) = (v(alpha) - floor) / (v(VLM) -
    floor) only where v(VLM) clears the floor (lower bound above 0); both with Fieller intervals.
    J = min(R, V), each clipped to 1, at the alpha that maximises it on dev in each run; its
    interval is Student's t over seeds, or with one seed a paired cluster bootstrap over items (B.
    Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, ch. 13: percentile), with
    alpha as chosen. Raises `UnpairedError` on missing items or alphas.
    """
    grids = {run: alphas_of(scores, run) for run in recipe.runs}
    merged = [i for i, run in enumerate(recipe.runs) if grids[run]]
    if not merged:
        raise UnpairedError(f"{recipe.label} has no scores of merged weights")
    recipe = replace(
        recipe,
        runs=tuple(recipe.runs[i] for i in merged),
        seeds=tuple(recipe.seeds[i] for i in merged),
    )
    alphas = grids[recipe.runs[0]]
    if any(grids[run] != alphas for run in recipe.runs):
        raise UnpairedError(f"{recipe.label}: its runs were merged at different alphas: {grids}")
    test = [_gather(scores, r, alphas, text, vision, reference, "test") for r in recipe.runs]
    s = np.array([macro(r.text) for r in test])
    v = np.array([macro(r.vision) for r in test])
    one = test[0]
    n_text = sum(len(b.codes) for b in one.text)
    n_vision = sum(len(b.codes) for b in one.vision)
    g_text = sum(b.groups for b in one.text)
    g_vision = sum(b.groups for b in one.vision)
    df_text, df_vision = float(g_text - len(one.text)), float(g_vision - 1)
    loss = _difference(s[:, 0] - s[:, 1], _item_cov(one.text, [(0, 1)]), df_text, n_text, g_text)
    clears = _difference(
        v[:, 1] - v[:, 0], _item_cov(one.vision, [(1, 0)]), df_vision, n_vision, g_vision
    )
    has_loss, sees = loss.low > margin, clears.low > 0
    points = []
    for k, alpha in enumerate(alphas, start=2):
        recovery = retention = None
        if has_loss:
            cov = _item_cov(one.text, [(k, 1), (0, 1)])
            recovery = _ratio(s[:, k] - s[:, 1], s[:, 0] - s[:, 1], cov, loss)
        if sees:
            cov = _item_cov(one.vision, [(k, 0), (1, 0)])
            retention = _ratio(v[:, k] - v[:, 0], v[:, 1] - v[:, 0], cov, clears)
        points.append(Point(alpha, recovery, retention, 100 * s[:, k].mean(), 100 * v[:, k].mean()))
    why = []
    if not has_loss:
        why.append(
            f"R is undefined: the loss of text, {loss.estimate:.1f} points "
            f"[{loss.low:.1f}, {loss.high:.1f}], is not surely above the margin of {margin:g}"
        )
    if not sees:
        why.append(
            "V is undefined: the VLM's vision score does not clear the floor of permuted images"
        )
    if 0.0 not in alphas:
        why.append("J is undefined: alpha 0 was not scored, so V(0) is unknown")
    joint = None
    if not why:
        try:
            dev = [_gather(scores, r, alphas, text, vision, reference, "dev") for r in recipe.runs]
        except UnpairedError as error:
            why.append(f"J is undefined: no alpha can be chosen on dev ({error})")
        else:
            joint = _joint(test, dev, alphas, s, v, loss, seed)
    return MergeCurve(recipe, tuple(text), tuple(points), loss, clears, joint, "; ".join(why))


def _least(r: Array, v: Array) -> Array:
    return np.minimum(np.minimum(r, 1.0), np.minimum(v, 1.0))


def _joint(
    test: list[_Run],
    dev: list[_Run],
    alphas: list[float],
    s: Array,
    v: Array,
    shape: Estimate,
    seed: int,
) -> Joint:
    chosen, joints, chords = [], [], []
    blind = alphas.index(0.0)
    for run, other, text, vision in zip(test, dev, s, v, strict=True):
        chosen.append(
            int(np.nanargmax(_least(*other.ratios(macro(other.text), macro(other.vision)))))
        )
        r_test, v_test = run.ratios(text, vision)
        joints.append(float(_least(r_test, v_test)[chosen[-1]]))
        chords.append(straight_chord(float(v_test[blind])))
    j, j0 = np.array(joints), np.array(chords)
    rows = np.arange(len(chosen))
    columns = np.array(chosen) + 2
    back = 100 * float((s[rows, columns] - s[rows, 1]).mean())
    cost = 100 * float((v[rows, 1] - v[rows, columns]).mean())
    picked = tuple(alphas[i] for i in chosen)
    if len(test) >= 2:
        each = [
            replace(t_interval(x, n_items=shape.n_items, n_clusters=shape.n_clusters), unit="ratio")
            for x in (j, j0, j - j0)
        ]
    else:
        each = _bootstrap(test[0], chosen[0], blind, j[0], j0[0], shape, seed)
    return Joint(each[0], each[1], each[2], picked, back, cost)


def _bootstrap(
    run: _Run, pick: int, blind: int, j: float, j0: float, shape: Estimate, seed: int
) -> list[Estimate]:
    """Percentile bounds of J, J0 and J - J0 over resampled clusters of items, alpha as chosen."""
    rng = np.random.default_rng(seed)
    text, vision = resample(run.text, DRAWS, rng), resample(run.vision, DRAWS, rng)
    r, v = run.ratios(text, vision)
    joint = _least(r, v)[:, pick]
    chord = 1 / (2 - np.clip(v[:, blind], 0.0, 1.0))
    usable = (text[:, 0] > text[:, 1]) & (vision[:, 1] > vision[:, 0])
    out = []
    for value, draws in ((j, joint), (j0, chord), (j - j0, joint - chord)):
        kept = draws[usable]
        if usable.mean() < 0.975:
            low, high, se = -math.inf, math.inf, math.inf
        else:
            low, high = (float(q) for q in np.quantile(kept, [0.025, 0.975]))
            se = float(kept.std(ddof=1))
        out.append(
            replace(
                shape,
                estimate=float(value),
                low=low,
                high=high,
                se=se,
                method=f"paired cluster bootstrap over items, {DRAWS} draws (one seed)",
                detectable=smallest_detectable(se, shape.df),
                p=math.nan,
                unit="ratio",
                n_seeds=1,
                over_items=None,
            )
        )
    return out
