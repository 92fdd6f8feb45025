"""Numbers in text: find them, read them, compare them exactly."""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(
    r"(?<![\w.])(?<!\d,)(?P<sign>[-+−])?\s?[$€£]?\s?(?P<sign2>[-−])?"
    r"(?P<whole>\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?P<part>\.\d+)?"
    r"(?P<power>[eE][-+]?\d{1,3})?(?:\s?/\s?(?P<over>\d+)(?![\d/]))?"
)
_NAMES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen twenty"""
_WORDS = {word: value for value, word in enumerate(_NAMES.split())}
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)


def numbers(text: str) -> list[Fraction]:
    """The numbers of `text` in order: 1,000, $18.00, -5, 3/4, .5, 2e3; words up to twenty.

    Words count only where the text holds no digits. A hyphen after a digit or letter is no sign,
    so "20-2" reads as 20 and 2.
    """
    found: list[Fraction] = []
    for match in _NUMBER.finditer(text):
        value = _value(match)
        if value is not None:
            found.append(value)
    if not found:
        found = [Fraction(_WORDS[match[1].lower()]) for match in _WORD.finditer(text)]
    return found


def as_number(text: str) -> Fraction | None:
    """The number that the whole text is (with currency, % or a closing stop), else None."""
    body = text.strip().rstrip(".%").strip()
    match = _NUMBER.fullmatch(body)
    return None if match is None else _value(match)


def _value(match: re.Match[str]) -> Fraction | None:
    whole, part = match["whole"], match["part"]
    if whole is None and part is None:
        return None
    power = match["power"] or ""
    value = Fraction(f"{(whole or '0').replace(',', '')}{part or ''}{power}")
    if match["over"]:
        if int(match["over"]) == 0:
            return None
        value /= int(match["over"])
    signs = (match["sign"] or "") + (match["sign2"] or "")
    return -value if ("-" in signs or "−" in signs) else value
