import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from mixlab.attribute import Estimate, equivalent, smallest_detectable, t_interval, word


def make(values) -> Estimate:
    return t_interval(np.asarray(values, dtype=float))


@pytest.mark.parametrize("seed", range(40))
def test_equivalence_is_statsmodels_two_one_sided_tests(seed):
    values = np.random.default_rng(seed).normal(1.0, 1.5, 5)
    p, _, _ = DescrStatsW(values).ttost_mean(-3, 3)
    assert equivalent(make(values), 3.0) == (p < 0.05)


def test_words():
    assert word(make([0.1, 0.3, -0.2])) == "no loss"
    assert word(make([1.4, 1.5, 1.6])) == "no loss", "a sure loss inside the margin is none"
    assert word(make([9.0, 10.0, 11.0])) == "loss"
    assert word(make([-9.0, -10.0, -11.0])) == "gain"
    assert word(make([-9.0, 2.0, 8.0])) == "undetermined"
    assert word(make([9.0])) == "undetermined", "one seed has no interval over seeds"
    with pytest.raises(ValueError, match="margin is 0"):
        word(make([1.0, 2.0]), 0)


def test_scope_never_calls_one_seed_a_recipe():
    assert make([1.0]).scope == "two checkpoints"
    assert make([1.0, 2.0]).scope == "recipes"


def test_smallest_detectable_is_found_four_times_in_five():
    se_true, n = 1.0, 8
    effect = smallest_detectable(se_true / math.sqrt(n), n - 1)
    rng = np.random.default_rng(0)
    x = rng.normal(effect, se_true, (4000, n))
    t = x.mean(1) / (x.std(1, ddof=1) / math.sqrt(n))
    power = (np.abs(t) > stats.t.ppf(0.975, n - 1)).mean()
    assert 0.74 < power < 0.86
    assert smallest_detectable(1.0, 0) == math.inf


def test_scaling_by_a_negative_number_swaps_the_bounds():
    e = make([1.0, 2.0, 4.0]).scaled(-100)
    assert e.low < e.estimate < e.high
    assert e.se > 0
    assert e.detectable > 0
