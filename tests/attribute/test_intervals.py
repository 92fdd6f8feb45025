import math

import numpy as np
import pytest
from scipy import stats

from mixlab.attribute import cluster_interval, crossed_interval, fieller, t_interval
from mixlab.attribute._intervals import cluster_moments, unseen_bound


def test_t_interval_is_scipys():
    x = np.array([1.2, -0.4, 2.5, 0.9])
    e = t_interval(x)
    low, high = stats.t.interval(0.95, 3, loc=x.mean(), scale=stats.sem(x))
    assert (e.low, e.high) == pytest.approx((low, high))
    assert e.p == pytest.approx(stats.ttest_1samp(x, 0).pvalue)
    assert e.df == 3


def test_one_seed_has_infinite_bounds():
    e = t_interval([0.3])
    assert (e.low, e.high) == (-math.inf, math.inf)
    assert math.isnan(e.p)


def test_t_interval_over_seeds_covers_93_to_97_percent():
    rng = np.random.default_rng(1)
    for seeds in (3, 4, 6):
        x = rng.normal(2.0, 1.0, (4000, seeds))
        se = x.std(1, ddof=1) / math.sqrt(seeds)
        sample = [t_interval(row) for row in x[:200]]
        reach = stats.t.ppf(0.975, seeds - 1) * se
        assert np.allclose([e.high for e in sample], x[:200].mean(1) + reach[:200])
        assert 0.93 < (np.abs(x.mean(1) - 2) < reach).mean() < 0.97


def test_seed_level_interval_of_scored_tables_covers():
    # Binary items with difficulty and a seed effect in logits; truth over seeds, items fixed.
    rng = np.random.default_rng(2)
    ease = rng.normal(1.0, 1.0, 200)
    truth = np.mean([1 / (1 + np.exp(-(ease + s))) for s in rng.normal(0, 0.25, 20000)], axis=0)
    hits = 0
    for _ in range(2000):
        effect = rng.normal(0, 0.25, 4)
        p = 1 / (1 + np.exp(-(ease[:, None] + effect)))
        e = t_interval((rng.random(p.shape) < p).mean(axis=0))
        hits += e.low < truth.mean() < e.high
    assert 0.93 < hits / 2000 < 0.97


def test_equal_clusters_reduce_to_the_t_interval_of_cluster_means():
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, 60)
    clusters = np.repeat(np.arange(20), 3)
    e = cluster_interval(x, clusters)
    means = x.reshape(20, 3).mean(1)
    low, high = stats.t.interval(0.95, 19, loc=means.mean(), scale=stats.sem(means))
    assert (e.low, e.high) == pytest.approx((low, high))
    assert (e.n_items, e.n_clusters) == (60, 20)


def test_unequal_clusters_match_the_matrix_form_of_cr2():
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(7), [1, 2, 9, 4, 3, 6, 2])
    x = rng.normal(0, 1, len(clusters)) + rng.normal(0, 1, 7)[clusters]
    n = len(x)
    hat = np.full((n, n), 1 / n)
    residual = x - x.mean()
    parts, rows = [], []
    for g in range(7):
        own = clusters == g
        lever = np.eye(own.sum()) - hat[np.ix_(own, own)]
        value, vector = np.linalg.eigh(lever)
        root = vector @ np.diag(value**-0.5) @ vector.T
        parts.append((root @ residual[own]).sum())
        rows.append((np.eye(n) - hat)[:, own] @ root @ np.ones(own.sum()))
    a = np.stack(rows)
    spread = a @ a.T
    _, se, df, groups = cluster_moments(x, clusters)
    assert groups == 7
    assert se == pytest.approx(math.sqrt((np.array(parts) ** 2).sum()) / n)
    assert df == pytest.approx(np.trace(spread) ** 2 / (spread**2).sum())


def test_one_cluster_says_nothing():
    e = cluster_interval([0.0, 1.0, 1.0], ["a", "a", "a"])
    assert (e.low, e.high) == (-math.inf, math.inf)


def test_crossed_interval_covers_when_items_and_seeds_are_both_random():
    rng = np.random.default_rng(5)
    hits = narrow = 0
    draws = 1500
    for _ in range(draws):
        seeds, groups = 3, 40
        x = (
            rng.normal(0, 1.0, seeds)[None, :]
            + np.repeat(rng.normal(0, 5.0, groups), 2)[:, None]
            + rng.normal(0, 2.0, (2 * groups, seeds))
        )
        e = crossed_interval(x, np.repeat(np.arange(groups), 2))
        hits += e.low < 0 < e.high
        only = t_interval(x.mean(axis=0))
        narrow += only.low < 0 < only.high
    assert 0.93 < hits / draws <= 0.985
    assert narrow / draws < hits / draws


def test_crossed_interval_never_forgets_the_seeds():
    x = np.tile(np.array([1.0, 2.0, 3.0]), (10, 1))
    e = crossed_interval(x, np.arange(10))
    assert e.se == pytest.approx(1 / math.sqrt(3))
    assert e.df == pytest.approx(2)


def test_fieller_covers_where_delta_would_not():
    rng = np.random.default_rng(6)
    n, hits, draws = 5, 0, 4000
    for _ in range(draws):
        bottom = rng.normal(1.0, 0.5, n)
        top = 0.6 * bottom + rng.normal(0, 0.2, n)
        c = np.cov(top, bottom, ddof=1) / n
        low, high = fieller(top.mean(), bottom.mean(), c[0, 0], c[1, 1], c[0, 1], n - 1)
        hits += low <= 0.6 <= high
    assert 0.93 < hits / draws < 0.975


def test_fieller_of_equal_parts_is_exactly_one():
    assert fieller(2.0, 2.0, 0.1, 0.1, 0.1, 4) == pytest.approx((1.0, 1.0))


def test_fieller_is_unbounded_when_the_denominator_may_be_zero():
    assert fieller(1.0, 0.1, 0.01, 1.0, 0.0, 4) == (-math.inf, math.inf)


def test_unseen_bound_is_clopper_pearson():
    found = stats.binomtest(0, 50).proportion_ci(0.95, method="exact").high
    assert unseen_bound(50) == pytest.approx(found)
    assert unseen_bound(0) == 1.0
