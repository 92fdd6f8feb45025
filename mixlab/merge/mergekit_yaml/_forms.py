"""The forms that a setting may have: a value, a gradient, or either behind filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SCALARS = (bool, int, float, str)


def malformed(value: Any) -> str | None:
    """What is wrong with the form of a setting."""
    if value is None or isinstance(value, SCALARS):
        return None
    parts = [value] if isinstance(value, Mapping) else value
    if isinstance(parts, list) and all(isinstance(part, SCALARS) for part in parts):
        return None
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        return f"found {value!r}, expected a value, a list of values, or value: with filter:"
    for part in parts:
        if "value" not in part or set(part) - {"value", "filter"}:
            return f"found {dict(part)!r}, expected value: and filter:"
        inner, wanted = part["value"], part.get("filter")
        if wanted is not None and not isinstance(wanted, str):
            return f"filter is {wanted!r}, expected text that stands in the names of tensors"
        listed = inner if isinstance(inner, list) else [inner]
        if not all(isinstance(item, SCALARS) for item in listed):
            return f"value is {inner!r}, expected a value or a list of values"
    return None


def filters(value: Any) -> Iterator[str]:
    parts = [value] if isinstance(value, Mapping) else value
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and part.get("filter") not in (None, "*"):
            yield part["filter"]
