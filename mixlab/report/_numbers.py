"""How numbers are printed. Every number in a sentence carries its full value and a key."""

from __future__ import annotations

import math

from markupsafe import Markup

from mixlab.attribute import Estimate


def number(value: float, places: int = 1) -> str:
    """Fixed places, a true minus sign, no negative zero; infinity and NaN in words."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{places}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def percent(share: float, places: int = 1) -> str:
    """A share of 1 as a percentage; a dash when unknown."""
    return "–" if math.isnan(share) else f"{number(100 * share, places)}%"


def data(value: float, key: str, places: int = 1, suffix: str = "") -> Markup:
    """A printed number in a `<data>` element that holds the exact value and the key it goes by."""
    return Markup('<data value="{}" data-key="{}">{}{}</data>').format(
        repr(float(value)), key, number(value, places), suffix
    )


def interval(e: Estimate, key: str, places: int = 1) -> Markup:
    """`12.3 [10.1, 14.5]`, each number with its key."""
    return Markup('<span class="n">{} [{}, {}]</span>').format(
        data(e.estimate, f"{key}|estimate", places),
        data(e.low, f"{key}|low", places),
        data(e.high, f"{key}|high", places),
    )


def bounds(e: Estimate, places: int = 1) -> str:
    """`[10.1, 14.5]` for a table cell."""
    return f"[{number(e.low, places)}, {number(e.high, places)}]"


def seeds(n: int) -> str:
    """How many seeds, and what that allows to be said."""
    return f"{n} seeds" if n >= 2 else "one seed"
