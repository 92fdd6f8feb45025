import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mixlab.attribute import UnpairedError, above_floor, contrast, loss_on, recipes, score_of

from .tables import SIGHT, SKILL, recipe, rows, share


def study(*levels, n=200, **fixed):
    frames = [rows("reference", share(n, 0.9), per_cluster=2, **fixed)]
    frames += [rows(f"arm-{s}", share(n, p), per_cluster=2, **fixed) for s, p in enumerate(levels)]
    return pd.concat(frames)


def test_loss_over_seeds_is_the_t_interval_of_the_seeds_contrasts():
    found = loss_on(study(0.5, 0.55, 0.45), recipe("arm", [0, 1, 2]), SKILL)
    x = np.array([40.0, 35.0, 45.0])
    low, high = stats.t.interval(0.95, 2, loc=40, scale=stats.sem(x))
    assert found.estimate.estimate == pytest.approx(40)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((low, high))
    assert (found.estimate.n_seeds, found.estimate.n_items, found.estimate.n_clusters) == (
        3,
        200,
        100,
    )
    assert found.word == "loss"
    wide = found.estimate.over_items
    assert wide is not None
    assert wide.se >= found.estimate.se
    assert (found.reference, found.score) == pytest.approx((90, 50))


def test_one_seed_gets_an_interval_over_items_and_no_recipe():
    found = loss_on(study(0.5), recipe("arm", [0]), SKILL)
    assert found.estimate.scope == "two checkpoints"
    assert "clusters" in found.estimate.method
    assert found.estimate.low < 40 < found.estimate.high


def test_equal_scores_get_an_exact_bound_and_not_a_zero_width():
    found = loss_on(study(0.9, 0.9, 0.9), recipe("arm", [0, 1, 2]), SKILL)
    assert found.estimate.estimate == 0
    assert found.estimate.high == pytest.approx(100 * (1 - 0.025 ** (1 / 100)))
    assert found.word == "undetermined", "100 clusters cannot rule out 3 points"
    many = loss_on(study(0.9, 0.9, 0.9, n=800), recipe("arm", [0, 1, 2]), SKILL)
    assert many.word == "no loss"


def test_seeds_that_agree_by_chance_fall_back_on_the_items():
    left = np.r_[np.ones(50), np.zeros(50)]
    table = pd.concat(
        [rows("reference", np.ones(100)), rows("arm-0", left), rows("arm-1", np.roll(left, 20))]
    )
    found = loss_on(table, recipe("arm", [0, 1]), SKILL).estimate
    assert found.method.startswith("seeds agree exactly")
    assert 0 < found.high - found.estimate < 50


def test_one_cluster_is_undetermined():
    table = study(0.5).assign(cluster="one")
    found = loss_on(table, recipe("arm", [0]), SKILL)
    assert found.word == "undetermined"
    assert not found.estimate.bounded


def test_contrast_pairs_seeds_and_drops_the_unshared():
    table = pd.concat(
        [study(0.5, 0.6, 0.4)]
        + [rows(f"mix-{s}", share(200, p), per_cluster=2) for s, p in ((0, 0.7), (2, 0.6))]
    )
    found = contrast(table, recipe("mix", [0, 2]), recipe("arm", [0, 1, 2]), SKILL)
    assert found.estimate.estimate == pytest.approx(20)
    assert found.estimate.n_seeds == 2
    assert found.word == "higher"
    with pytest.raises(UnpairedError, match="no seed in common"):
        contrast(table, recipe("mix", [5]), recipe("arm", [0, 1, 2]), SKILL)


def test_contrast_pairs_by_item_too():
    rng = np.random.default_rng(0)
    x = rng.random(200) < 0.5
    table = pd.concat([rows("a-0", x), rows("b-0", x)])
    found = contrast(table, recipe("a", [0]), recipe("b", [0]), SKILL)
    assert found.estimate.high < 2, "items that agree leave no spread, whatever their own"


def test_floor_needs_both_conditions_on_the_same_items():
    seen = rows("arm-0", share(100, 0.8), construct="vision")
    blind = rows("arm-0", share(100, 0.3), construct="vision", condition="permuted")
    found = above_floor(pd.concat([seen, blind]), recipe("arm", [0]), SIGHT)
    assert found.estimate == pytest.approx(50)
    with pytest.raises(UnpairedError, match="image and permuted"):
        above_floor(pd.concat([seen, blind.iloc[:90]]), recipe("arm", [0]), SIGHT)


def test_score_of_is_in_points():
    found = score_of(study(0.5, 0.6), recipe("arm", [0, 1]), SKILL)
    assert found.estimate == pytest.approx(55)


def test_recipes_group_runs_and_refuse_a_repeated_seed():
    runs = pd.DataFrame(
        {
            "run": ["a1", "a0", "b0"],
            "recipe": ["A", "A", "B"],
            "arm": ["x", "x", "y"],
            "kind": "baseline",
            "seed": [1, 0, 0],
        }
    )
    found = recipes(runs)
    assert [(r.key, r.runs, r.seeds) for r in found] == [
        ("A", ("a0", "a1"), (0, 1)),
        ("B", ("b0",), (0,)),
    ]
    with pytest.raises(UnpairedError, match="a seed stands there twice"):
        recipes(runs.assign(seed=0))
