"""Which recipes nothing else beats on both text and vision."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pareto(points: ArrayLike) -> NDArray[np.bool_]:
    """Mask [N] of the points [N, 2] on the front, both coordinates to be maximised.

    A point is off the front when another is at least as good on both and better on one (V. Pareto's
    dominance). Points with a NaN are never on it; equal points stand on it together.
    """
    x = np.asarray(points, dtype=float)
    mask = np.isfinite(x).all(axis=1)
    for i in np.flatnonzero(mask):
        others = x[np.isfinite(x).all(axis=1)]
        beaten = (others >= x[i]).all(axis=1) & (others > x[i]).any(axis=1)
        mask[i] = not beaten.any()
    return mask
