"""Intervals over seeds, over clustered items, over both, and for ratios."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mixlab.attribute._estimate import Estimate, smallest_detectable

Vector = NDArray[np.float64]


AGREE = 1e-10
"""A standard error below this is rounding: the values agree exactly."""


def t_bounds(mean: float, se: float, df: float, level: float = 0.95) -> tuple[float, float]:
    """mean +- t[df] * se; infinite when there are no degrees of freedom."""
    if not df > 0 or not math.isfinite(se):
        return -math.inf, math.inf
    reach = float(stats.t.ppf(0.5 + level / 2, df)) * se
    return mean - reach, mean + reach


def p_value(mean: float, se: float, df: float) -> float:
    """Two-sided t test of 0. NaN without degrees of freedom or spread."""
    if not df > 0 or not math.isfinite(se) or se == 0:
        return math.nan
    return float(2 * stats.t.sf(abs(mean) / se, df))


def cluster_moments(values: ArrayLike, clusters: ArrayLike) -> tuple[float, float, float, int]:
    """Mean of `values` [N], its CR2 standard error, Satterthwaite df, and the number of clusters.

    The intercept-only case of R. M. Bell and D. F. McCaffrey, Survey Methodology 28 (2002)
    169-181: each cluster's residual sum is divided by sqrt(1 - n_g/N), and df = tr(B)^2/tr(B B) for
    B[g,h] = w_g w_h (n_g [g=h] - n_g n_h/N). With equal clusters this is the plain variance of
    cluster means with G - 1 degrees of freedom. One cluster gives an infinite standard error.
    """
    x = np.asarray(values, dtype=float)
    _, code = np.unique(np.asarray(clusters).astype(str), return_inverse=True)
    n, groups = len(x), int(code.max()) + 1 if len(code) else 0
    mean = float(x.mean()) if n else math.nan
    if groups < 2:
        return mean, math.inf, 0.0, groups
    size = np.bincount(code).astype(float)
    residual = np.bincount(code, weights=x - mean)
    weight = 1 / np.sqrt(1 - size / n)
    se = float(np.sqrt(((weight * residual) ** 2).sum()) / n)
    trace = float((weight**2 * (size - size**2 / n)).sum())
    diagonal = weight**2 * size
    u = weight * size
    square = float((diagonal**2).sum() - 2 * (diagonal * u**2).sum() / n + (u**2).sum() ** 2 / n**2)
    return mean, se, trace**2 / square, groups


def t_interval(
    values: ArrayLike, *, n_items: int = 0, n_clusters: int = 0, level: float = 0.95
) -> Estimate:
    """Student's t interval of the mean of one value a seed (df = S - 1), in the values' unit.

    One seed has no spread: the bounds are infinite.
    """
    x = np.asarray(values, dtype=float)
    mean, df = float(x.mean()), len(x) - 1
    se = float(x.std(ddof=1) / math.sqrt(len(x))) if df > 0 else math.inf
    low, high = t_bounds(mean, se, df, level)
    return Estimate(
        mean,
        low,
        high,
        se,
        df,
        n_items,
        n_clusters,
        len(x),
        f"t interval over {len(x)} seeds",
        smallest_detectable(se, df, level),
        p_value(mean, se, df),
        level,
    )


def cluster_interval(
    values: ArrayLike, clusters: ArrayLike, *, n_seeds: int = 1, level: float = 0.95
) -> Estimate:
    """Cluster-robust (CR2) interval of the mean over items; source: see `cluster_moments`."""
    mean, se, df, groups = cluster_moments(values, clusters)
    low, high = t_bounds(mean, se, df, level)
    n = len(np.asarray(values))
    method = f"cluster-robust (CR2) interval over {groups} clusters of items"
    detectable = smallest_detectable(se, df, level)
    p = p_value(mean, se, df)
    return Estimate(mean, low, high, se, df, n, groups, n_seeds, method, detectable, p, level)


def crossed_interval(table: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> Estimate:
    """Interval of the mean of `table` [items, seeds] that generalises over seeds and over items.

    Two crossed random factors: Var = V_seed + V_item - V_rest, where each of the first two holds
    the interaction once, so it is taken away once (never below the larger of the two). Degrees of
    freedom by F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110-114. Items count by cluster.
    """
    x = np.asarray(table, dtype=float)
    n, seeds = x.shape
    mean, item_se, item_df, groups = cluster_moments(x.mean(axis=1), clusters)
    if seeds < 2 or groups < 2:
        return cluster_interval(x.mean(axis=1), clusters, n_seeds=seeds, level=level)
    by_seed = x.mean(axis=0)
    seed_var = float(by_seed.var(ddof=1)) / seeds
    item_var = item_se**2
    _, code = np.unique(np.asarray(clusters).astype(str), return_inverse=True)
    cell = np.zeros((groups, seeds))
    np.add.at(cell, code, x / n)
    share = np.bincount(code)[:, None] / n
    rest = cell - cell.mean(axis=1, keepdims=True) - share * (by_seed - mean)[None, :]
    rest_var = float((rest**2).sum()) / (seeds - 1) / seeds * groups / (groups - 1)
    variance = max(seed_var + item_var - rest_var, seed_var, item_var)
    spread = (
        seed_var**2 / (seeds - 1)
        + item_var**2 / item_df
        + rest_var**2 / ((seeds - 1) * (groups - 1))
    )
    df = variance**2 / spread if spread > 0 else float(seeds - 1)
    se = math.sqrt(variance)
    low, high = t_bounds(mean, se, df, level)
    method = f"Satterthwaite interval over {seeds} seeds and {groups} clusters of items"
    return Estimate(
        mean,
        low,
        high,
        se,
        df,
        n,
        groups,
        seeds,
        method,
        smallest_detectable(se, df, level),
        p_value(mean, se, df),
        level,
    )


def unseen_bound(n_clusters: int, level: float = 0.95) -> float:
    """Largest share of clusters that may differ when none of `n_clusters` did.

    C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404-413, at zero events: 1 - (a/2)^(1/G).
    """
    return 1.0 if n_clusters < 1 else 1 - ((1 - level) / 2) ** (1 / n_clusters)


def fieller(
    top: float,
    bottom: float,
    var_top: float,
    var_bottom: float,
    covariance: float,
    df: float,
    level: float = 0.95,
) -> tuple[float, float]:
    """Bounds of the ratio top/bottom of two correlated means.

    E. C. Fieller, J. R. Statist. Soc. B 16 (1954) 175-185: all rho with
    (top - rho bottom)^2 <= t^2 (var_top - 2 rho cov + rho^2 var_bottom). When the denominator is
    not sure to differ from 0 the set is unbounded, and (-inf, inf) is returned.
    """
    if not df > 0:
        return -math.inf, math.inf
    t2 = float(stats.t.ppf(0.5 + level / 2, df)) ** 2
    a = bottom**2 - t2 * var_bottom
    if a <= 0:
        return -math.inf, math.inf
    b = top * bottom - t2 * covariance
    c = top**2 - t2 * var_top
    root = math.sqrt(max(b * b - a * c, 0.0))
    return (b - root) / a, (b + root) / a
