"""What every statistical function hands back: a number with all that is needed to doubt it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy import stats

UNDETERMINED = "undetermined"


@dataclass(frozen=True)
class Estimate:
    """An estimate with its interval.

    `estimate`, `low` and `high` are in `unit` ("points" are hundredths of a score of 1; "ratio" has
    no unit). `detectable` is the smallest true effect that this design would have found (see
    `smallest_detectable`). `p` is two-sided against 0. `over_items` holds the wider interval that
    also generalises over items. Bounds may be infinite: then nothing was learnt.
    """

    estimate: float
    low: float
    high: float
    se: float
    df: float
    n_items: int
    n_clusters: int
    n_seeds: int
    method: str
    detectable: float
    p: float = math.nan
    level: float = 0.95
    unit: str = "points"
    over_items: Estimate | None = None

    @property
    def scope(self) -> str:
        """Whom the interval speaks of: `recipes` needs seeds; one seed is two checkpoints."""
        return "recipes" if self.n_seeds >= 2 else "two checkpoints"

    @property
    def bounded(self) -> bool:
        """True when both bounds are finite numbers."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def scaled(self, factor: float) -> Estimate:
        """The same estimate in another unit (a negative factor swaps the bounds)."""
        low, high = sorted((self.low * factor, self.high * factor))
        inner = self.over_items.scaled(factor) if self.over_items else None
        size = abs(factor)
        return replace(
            self,
            estimate=self.estimate * factor,
            low=low,
            high=high,
            se=self.se * size,
            detectable=self.detectable * size,
            over_items=inner,
        )


def smallest_detectable(se: float, df: float, level: float = 0.95, power: float = 0.8) -> float:
    """Smallest true effect found with the given power: (t[1-a/2, df] + t[power, df]) * se.

    Source: H. S. Bloom, Minimum detectable effects, Evaluation Review 19 (1995) 547-556. Assumes
    that the standard error seen here is the true one and that a new study has the same seeds and
    items; the t quantile for power stands in for the noncentral t.
    """
    if not (df > 0 and math.isfinite(se)):
        return math.inf
    return float((stats.t.ppf(0.5 + level / 2, df) + stats.t.ppf(power, df)) * se)


DETECTABLE_FORMULA = (
    "smallest detectable effect = (t[97.5%, df] + t[80%, df]) x standard error: the true effect "
    "that a study with these seeds, items and this spread would find four times in five"
)


def word(estimate: Estimate, margin: float = 3.0) -> str:
    """`no loss`, `loss`, `gain` or `undetermined` for a loss in points (positive: points lost).

    `no loss` is equivalence within +-margin by two one-sided t tests at 5% each (D. J. Schuirmann,
    J. Pharmacokinet. Biopharm. 15 (1987) 657-680), so that a small sure loss inside the margin is
    no loss. Otherwise the sign of an interval that leaves 0 out; otherwise undetermined.
    """
    if margin <= 0:
        raise ValueError(f"margin is {margin}; it must be a positive number of points")
    if not estimate.bounded or not estimate.df > 0:
        return UNDETERMINED
    if equivalent(estimate, margin):
        return "no loss"
    if estimate.low > 0:
        return "loss"
    if estimate.high < 0:
        return "gain"
    return UNDETERMINED


def equivalent(estimate: Estimate, margin: float = 3.0) -> bool:
    """True when two one-sided 5% t tests put the effect inside +-margin (source: see `word`)."""
    if not estimate.bounded or not estimate.df > 0:
        return False
    if estimate.se == 0:
        return max(abs(estimate.low), abs(estimate.high)) < margin
    reach = float(stats.t.ppf(0.95, estimate.df)) * estimate.se
    return estimate.estimate - reach > -margin and estimate.estimate + reach < margin
