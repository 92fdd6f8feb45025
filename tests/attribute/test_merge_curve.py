import math

import numpy as np
import pandas as pd
import pytest

from mixlab.attribute import UnpairedError, merge_curve, straight_chord

from .tables import SIGHT, SKILL, chord, recipe, rows

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
ARM = recipe("arm", [0, 1, 2])
ONE = recipe("arm", [0])


def straight(blind=0.0, grid=GRID):
    return {a: 1 - a for a in grid}, {a: blind + (1 - blind) * a for a in grid}


@pytest.mark.parametrize("blind", [0.0, 0.25, 0.5, 1.0])
def test_closed_form_of_the_straight_chord(blind):
    # The crossing of R = 1 - a and V = V0 + (1 - V0) a, found by a fine grid.
    a = np.linspace(0, 1, 100_001)
    best = np.minimum(1 - a, blind + (1 - blind) * a).max()
    assert straight_chord(blind) == pytest.approx(best, abs=1e-4)
    assert straight_chord(-0.2) == 0.5
    assert straight_chord(1.3) == 1.0


@pytest.mark.parametrize(("blind", "crossing"), [(0.0, 0.5), (0.5, 1 / 3)])
def test_j_of_a_straight_chord_is_j0(blind, crossing):
    grid = (0.0, crossing, 1.0)
    table = chord(*straight(blind, grid), n=1200)
    found = merge_curve(table, ARM, [SKILL], SIGHT).joint
    assert found is not None
    assert found.joint.estimate == pytest.approx(1 / (2 - blind), abs=2e-3)
    assert found.chord.estimate == pytest.approx(1 / (2 - blind), abs=2e-3)
    assert found.excess.estimate == pytest.approx(0, abs=2e-3)
    assert found.alphas == pytest.approx((crossing,) * 3)


def test_r_and_v_are_as_planted_and_exact_at_both_ends():
    recovery = {0.0: 1.0, 0.25: 0.95, 0.5: 0.8, 0.75: 0.4, 1.0: 0.0}
    retention = {0.0: 0.1, 0.25: 0.6, 0.5: 0.85, 0.75: 0.95, 1.0: 1.0}
    found = merge_curve(chord(recovery, retention), ARM, [SKILL], SIGHT)
    for p in found.points:
        assert p.recovery.estimate == pytest.approx(recovery[p.alpha], abs=6e-3)
        assert p.retention.estimate == pytest.approx(retention[p.alpha], abs=6e-3)
    ends = {p.alpha: p for p in found.points}
    assert (ends[0.0].recovery.low, ends[0.0].recovery.high) == pytest.approx((1, 1))
    assert (ends[1.0].recovery.low, ends[1.0].recovery.high) == pytest.approx((0, 0))
    assert (ends[1.0].retention.low, ends[1.0].retention.high) == pytest.approx((1, 1))
    assert found.joint.alphas == (0.5, 0.5, 0.5)
    assert found.joint.joint.estimate == pytest.approx(0.8, abs=5e-3)
    assert found.joint.text_back == pytest.approx(40, abs=0.5)
    assert found.joint.vision_cost == pytest.approx(9, abs=0.5)


def test_alpha_is_chosen_on_dev_and_j_taken_on_test():
    table = chord(*straight())
    # On test alone, alpha 0.75 would be best; dev cannot see that.
    lucky = (table["split"] == "test") & (table["alpha"] == 0.75)
    table.loc[lucky, "score"] = 1.0
    found = merge_curve(table, ARM, [SKILL], SIGHT).joint
    assert found.alphas == (0.5, 0.5, 0.5)
    assert found.joint.estimate == pytest.approx(0.5, abs=5e-3)


def test_r_is_undefined_without_a_sure_loss():
    found = merge_curve(chord(*straight(), tuned=0.98), ARM, [SKILL], SIGHT)
    assert all(p.recovery is None for p in found.points)
    assert all(p.retention is not None for p in found.points)
    assert found.joint is None
    assert "R is undefined" in found.why
    assert "margin of 3" in found.why


def test_v_is_undefined_for_a_model_that_does_not_see():
    found = merge_curve(chord(*straight(), sight=0.2), ARM, [SKILL], SIGHT)
    assert all(p.retention is None for p in found.points)
    assert found.joint is None
    assert "does not clear the floor" in found.why


def test_one_seed_is_a_paired_bootstrap_over_items_and_is_called_so():
    found = merge_curve(chord(*straight(), seeds=(0,)), ONE, [SKILL], SIGHT)
    j = found.joint.joint
    assert "bootstrap" in j.method
    assert j.n_seeds == 1
    assert j.low < 0.5 <= j.high + 1e-9
    assert j.high - j.low < 0.2
    again = merge_curve(chord(*straight(), seeds=(0,)), ONE, [SKILL], SIGHT)
    assert again.joint.joint == j, "a seeded bootstrap gives the same bounds twice"


def test_fieller_with_one_seed_agrees_with_a_bootstrap_of_r():
    rng = np.random.default_rng(0)
    n = 600
    luck = rng.random(n)
    frames = []
    for split in ("dev", "test"):
        frames.append(rows("reference", luck < 0.95, split=split))
        for operator, alpha, level in (("none", math.nan, 0.5), ("merge", 0.0, 0.95),
                                       ("merge", 0.5, 0.8), ("merge", 1.0, 0.5)):  # fmt: skip
            noisy = luck + rng.normal(0, 0.1, n) < level
            state = {"split": split, "operator": operator, "alpha": alpha}
            frames.append(rows("arm-0", noisy, **state))
            frames.append(rows("arm-0", luck < 0.8, construct="vision", **state))
        blind = {"split": split, "construct": "vision", "condition": "permuted"}
        frames.append(rows("arm-0", luck < 0.2, **blind))
    table = pd.concat(frames)
    point = merge_curve(table, ONE, [SKILL], SIGHT).points[1]
    test = table[(table["split"] == "test") & (table["construct"] == "procedure")]
    base = test[test["run"] == "reference"]["score"].to_numpy()
    plain = test[(test["run"] == "arm-0") & (test["operator"] == "none")]["score"].to_numpy()
    half = test[test["alpha"] == 0.5]["score"].to_numpy()
    draws = rng.integers(0, n, (4000, n))
    r = (half[draws].mean(1) - plain[draws].mean(1)) / (base[draws].mean(1) - plain[draws].mean(1))
    low, high = np.quantile(r, [0.025, 0.975])
    assert point.recovery.low == pytest.approx(low, abs=0.02)
    assert point.recovery.high == pytest.approx(high, abs=0.02)


def test_without_dev_no_alpha_is_chosen_and_the_page_can_say_why():
    table = chord(*straight())
    found = merge_curve(table[table["split"] == "test"], ARM, [SKILL], SIGHT)
    assert found.joint is None
    assert "no alpha can be chosen on dev" in found.why
    assert found.points[0].recovery is not None


def test_without_alpha_0_there_is_no_yardstick():
    recovery, retention = straight(grid=(0.5, 1.0))
    found = merge_curve(chord(recovery, retention), ARM, [SKILL], SIGHT)
    assert found.joint is None
    assert "alpha 0 was not scored" in found.why


def test_missing_items_at_one_alpha_are_an_error():
    table = chord(*straight())
    hole = (table["alpha"] == 0.5) & (table["item"] == "i7") & (table["split"] == "test")
    with pytest.raises(UnpairedError, match=r"alpha 0.5: i7"):
        merge_curve(table[~hole], ARM, [SKILL], SIGHT)


def test_runs_merged_at_different_alphas_cannot_be_one_curve():
    table = chord(*straight())
    other = ~((table["run"] == "arm-1") & (table["alpha"] == 0.25))
    with pytest.raises(UnpairedError, match="different alphas"):
        merge_curve(table[other], ARM, [SKILL], SIGHT)


def test_an_arm_never_merged_is_an_error():
    table = chord(*straight())
    with pytest.raises(UnpairedError, match="no scores of merged weights"):
        merge_curve(table[table["operator"] == "none"], ARM, [SKILL], SIGHT)
