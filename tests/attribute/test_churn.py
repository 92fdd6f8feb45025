import numpy as np
import pandas as pd
import pytest

from mixlab.attribute import churn

from .tables import SKILL, recipe, rows


def test_churn_counts_both_ways_beside_the_floor():
    table = pd.concat(
        [
            rows("reference", [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]),
            rows("arm-0", [1, 1, 0, 0, 1, 0, 0, 0, 0, 0]),
            rows("arm-1", [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]),
        ]
    )
    found = churn(table, recipe("arm", [0, 1]), SKILL)
    assert found.lost == pytest.approx(15)
    assert found.gained == pytest.approx(15)
    assert found.net == pytest.approx(0)
    assert found.floor == pytest.approx(10), "2 of 10 items differ between seeds, half each way"


def test_one_seed_has_no_floor():
    table = pd.concat([rows("reference", np.ones(4)), rows("arm-0", np.zeros(4))])
    found = churn(table, recipe("arm", [0]), SKILL)
    assert found.floor is None
    assert found.lost == 100
