"""Several claims at once."""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values (S. Holm, Scand. J. Statist. 6 (1979) 65-70).

    NaN (no test was possible) stays NaN and does not count in the family.
    """
    from statsmodels.stats.multitest import multipletests

    known = [i for i, p in enumerate(p_values) if math.isfinite(p)]
    out = [math.nan] * len(p_values)
    if known:
        adjusted = multipletests([p_values[i] for i in known], method="holm")[1]
        for i, p in zip(known, adjusted, strict=True):
            out[i] = float(p)
    return out
