"""The output formats: a property of a row, an axis of the mix, a column of the tables."""

from __future__ import annotations

FORMATS: tuple[str, ...] = (
    "short",
    "letter",
    "sentence",
    "long",
    "json",
    "steps",
    "constrained",
)
"""Names of the output formats, in the order in which tables and charts show them."""
