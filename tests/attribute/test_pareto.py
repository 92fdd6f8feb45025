import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mixlab.attribute import pareto

points = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=20)


@given(points)
def test_front_is_what_a_naive_search_finds(found):
    naive = [not any(a >= x and b >= y and (a > x or b > y) for a, b in found) for x, y in found]
    assert pareto(found).tolist() == naive


def test_nan_is_never_on_the_front_and_beats_nothing():
    assert pareto([[1.0, np.nan], [0.0, 0.0]]).tolist() == [False, True]
