"""Shares that sum to 1 as independent numbers in [0, 1], uniformly and reversibly.

Stick-breaking with Beta quantiles: of the stick that is left, part i of k takes
v_i ~ Beta(1, k - 1 - i), whose product is the uniform (flat Dirichlet) distribution over shares.
The sequential advice in optuna#1311 (uniform parts of what is left) gives means 1/2, 1/4, ...
instead. Beta(1, b) has the closed survival function (1 - v)^b, so that u = (1 - v)^b is uniform
and is undone by v = 1 - u^(1/b). The survival side is used, not the distribution side, because it
keeps its relative precision where the rest of the stick is small.
"""

import math
from collections.abc import Sequence

import numpy as np

_GRID = 10**9


def _to_grid(shares: Sequence[float]) -> list[float]:
    """Shares as whole multiples of 1e-9 that sum to exactly one grid (largest remainder)."""
    scaled = np.asarray(shares, dtype=np.float64) * _GRID / math.fsum(shares)
    whole = np.floor(scaled + 1e-6).astype(np.int64)
    missing = _GRID - int(whole.sum())
    order = np.argsort(-(scaled - whole), kind="stable")
    if missing < 0:
        order, step = np.argsort(-whole, kind="stable"), -1
    else:
        step = 1
    for index in range(abs(missing)):
        whole[order[index % len(order)]] += step
    return [int(count) / _GRID for count in whole]


def unit_to_shares(unit: Sequence[float]) -> list[float]:
    """k - 1 numbers in [0, 1] to k shares on a grid of 1e-9 that sum to 1.

    Independent uniform numbers give uniformly distributed shares, each with mean 1/k.
    """
    shares, rest = [], 1.0
    for index, u in enumerate(unit):
        power = len(unit) - index
        part = rest * (1.0 - min(max(float(u), 0.0), 1.0) ** (1.0 / power))
        shares.append(part)
        rest = max(rest - part, 0.0)
    return _to_grid([*shares, rest])


def shares_to_unit(shares: Sequence[float]) -> list[float]:
    """k shares that sum to 1 to the k - 1 numbers that `unit_to_shares` turns back into them.

    Exact for shares with up to nine decimals. Where nothing is left of the stick, any number would
    do and 0.5 is given.
    """
    unit, size = [], len(shares)
    for index in range(size - 1):
        rest = math.fsum(shares[index:])
        left = math.fsum(shares[index + 1 :])
        unit.append((left / rest) ** (size - 1 - index) if rest > 0 else 0.5)
    return unit
