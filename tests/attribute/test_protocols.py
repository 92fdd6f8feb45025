import numpy as np
import pandas as pd

from mixlab.attribute import own_best

from .tables import rows


def two(run, strict, semantic, **fixed):
    return [
        rows(run, np.full(4, strict), protocol="strict", **fixed),
        rows(run, np.full(4, semantic), protocol="semantic", **fixed),
    ]


def kept(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    return set(table["protocol"])


def test_each_model_is_read_by_its_own_best_on_dev():
    table = pd.concat(
        two("a", 0.9, 0.5, split="dev")
        + two("a", 0.1, 0.8)
        + two("b", 0.2, 0.7, split="dev")
        + two("b", 0.9, 0.1)
    )
    best = own_best(table, ["strict", "semantic"])
    assert kept(best, run="a") == {"strict"}, "test scores must not choose"
    assert kept(best, run="b") == {"semantic"}


def test_ties_and_missing_dev_go_to_the_first_declared():
    table = pd.concat(two("a", 0.5, 0.5, split="dev") + two("b", 0.1, 0.9))
    assert kept(own_best(table, ["semantic", "strict"])) == {"semantic"}


def test_format_is_read_by_the_first_declared_for_all():
    table = pd.concat(two("a", 0.1, 0.9, split="dev", construct="format"))
    assert kept(own_best(table, ["strict", "semantic"])) == {"strict"}


def test_a_merged_state_chooses_for_itself():
    table = pd.concat(
        two("a", 0.9, 0.1, split="dev")
        + two("a", 0.2, 0.6, split="dev", operator="merge", alpha=0.0)
        + two("a", 0.0, 0.0, operator="merge", alpha=0.5)
    )
    best = own_best(table, ["strict", "semantic"])
    assert kept(best, operator="none") == {"strict"}
    assert kept(best[best["alpha"] == 0.0]) == {"semantic"}
    assert len(kept(best[best["alpha"] == 0.5])) == 1, "no dev rows: its run's choice"


def test_permuted_rows_follow_their_models_choice():
    table = pd.concat(
        two("a", 0.2, 0.9, split="dev", construct="vision")
        + two("a", 0.9, 0.1, construct="vision", condition="permuted")
    )
    assert kept(own_best(table, ["strict", "semantic"]), condition="permuted") == {"semantic"}


def test_one_protocol_is_left_alone():
    table = rows("a", np.ones(3))
    assert own_best(table, ["strict"]) is table
