import numpy as np
import pandas as pd
import pytest

from mixlab import MixlabError
from mixlab.attribute import UnpairedError, check, lines, pair_items, rows_of, text_lines

from .tables import SKILL, rows


def test_missing_items_are_an_error_that_names_them():
    table = pd.concat([rows("a", np.ones(5)), rows("b", np.ones(5)).drop(index=[1, 3])])
    with pytest.raises(UnpairedError, match=r"b: i1, i3 \(2 in all\)"):
        pair_items(table, SKILL, ["a", "b"])


def test_repeated_rows_are_an_error():
    table = pd.concat([rows("a", np.ones(5)), rows("a", np.ones(1))])
    with pytest.raises(UnpairedError, match="more than once"):
        pair_items(table, SKILL, ["a"])


def test_an_unscored_run_is_named():
    with pytest.raises(MixlabError, match=r"no scores for the runs \['b'\]"):
        pair_items(rows("a", np.ones(5)), SKILL, ["a", "b"])


def test_pairing_does_not_depend_on_row_order():
    table = pd.concat([rows("a", np.arange(6) / 10), rows("b", np.arange(6) / 20)])
    mixed = table.sample(frac=1, random_state=0)
    one, two = (pair_items(t, SKILL, ["a", "b"]) for t in (table, mixed))
    pd.testing.assert_frame_equal(one.table, two.table)
    assert (one.column("a") == 2 * one.column("b")).all()
    assert list(one.clusters) == list(two.clusters)


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.2, np.inf])
def test_scores_that_are_no_scores(bad):
    table = rows("a", [0.0, bad, 1.0])
    with pytest.raises(UnpairedError, match=r"1 scores are not numbers in \[0, 1\].*i1"):
        check(table)


def test_missing_columns_are_named():
    with pytest.raises(UnpairedError, match="'cluster'"):
        check(rows("a", [1.0]).drop(columns="cluster"))


def test_rehearsed_and_unrehearsed_stand_apart_and_naive_items_are_left_out():
    table = pd.concat(
        rows("a", [1.0], construct="knowledge", role=role)
        for role in ("rehearsed", "tested", "refresh", "never_taught")
    )
    table = pd.concat([table, rows("a", [1.0]), rows("a", [1.0], construct="vision")])
    found = lines(table)
    assert [x.key for x in found] == [
        "knowledge/tested",
        "knowledge/rehearsed",
        "procedure",
        "vision",
    ]
    assert [x.key for x in text_lines(found)] == ["knowledge/tested", "procedure"]
    assert set(rows_of(table, found[0])["role"]) == {"tested"}


def test_a_construct_without_roles_is_one_line():
    table = rows("a", [1.0], construct="knowledge").assign(role=None)
    assert [x.key for x in lines(table)] == ["knowledge"]
    assert len(rows_of(table, lines(table)[0])) == 1
