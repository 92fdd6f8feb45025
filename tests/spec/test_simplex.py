import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlab.spec import shares_to_unit, unit_to_shares


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_uniform_over_the_simplex(size: int) -> None:
    """Flat Dirichlet: mean 1/k and variance (k - 1) / (k^2 (k + 1)) for every share."""
    draws = 20_000
    unit = np.random.default_rng(0).random((draws, size - 1))
    shares = np.array([unit_to_shares(row) for row in unit])
    variance = (size - 1) / (size**2 * (size + 1))
    assert np.abs(shares.mean(0) - 1 / size).max() < 4 * math.sqrt(variance / draws)
    assert np.abs(shares.var(0) / variance - 1).max() < 0.06
    assert np.abs(shares.sum(1) - 1).max() < 1e-12


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8).filter(sum))
def test_shares_with_a_few_decimals_round_trip_exactly(counts: list[int]) -> None:
    grid = 10**6
    shares = [count * grid // sum(counts) for count in counts]
    shares[0] += grid - sum(shares)
    wanted = [share / grid for share in shares]
    assert unit_to_shares(shares_to_unit(wanted)) == wanted


@pytest.mark.parametrize("shares", [[1.0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1.0], [0.99, 0.01, 0, 0]])
def test_corners(shares: list[float]) -> None:
    unit = shares_to_unit(shares)
    assert all(0 <= u <= 1 for u in unit)
    assert unit_to_shares(unit) == shares


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_any_unit_gives_shares(unit: list[float]) -> None:
    shares = unit_to_shares(unit)
    assert min(shares) >= 0
    assert math.isclose(math.fsum(shares), 1.0, abs_tol=1e-12)
