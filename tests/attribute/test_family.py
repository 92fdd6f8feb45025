import math

import pytest

from mixlab.attribute import holm


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_nan_does_not_count():
    found = holm([0.02, math.nan])
    assert found[0] == pytest.approx(0.02)
    assert math.isnan(found[1])
    assert holm([]) == []
