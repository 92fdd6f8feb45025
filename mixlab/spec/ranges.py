"""Ranges that several rooms ask for."""

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

_TOLERANCE = 1e-6


def _check_fraction(value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise ValueError(
            f"found {value:g}, expected a fraction between 0 and 1"
            + (f" (did you mean {value / 100:g}?)" if 1.0 < value <= 100.0 else "")
        )
    return value


def check_shares(shares: Mapping[str, float]) -> dict[str, float]:
    """Return `shares` if none is negative and they sum to 1 (within 1e-6).

    Raises:
        ValueError: naming the negative share, or the sum found.
    """
    if not shares:
        raise ValueError("no shares given; expected at least one, summing to 1")
    for name, share in shares.items():
        if not math.isfinite(share) or share < 0.0:
            raise ValueError(f"share of {name!r} is {share:g}; shares must be 0 or more")
    total = math.fsum(shares.values())
    if abs(total - 1.0) > _TOLERANCE:
        listing = " + ".join(f"{name} {share:g}" for name, share in shares.items())
        raise ValueError(f"shares sum to {total:g} ({listing}); they must sum to 1")
    return dict(shares)


Fraction = Annotated[float, AfterValidator(_check_fraction)]
"""A float in [0, 1]."""

Shares = Annotated[dict[str, float], AfterValidator(check_shares)]
"""Names with shares that are 0 or more and sum to 1."""
