"""Cut a text into words, sentences and paragraphs, offline and deterministically.

IFEval's reference code uses NLTK's punkt model, which has to be downloaded. These rules differ
from it only at rare abbreviations.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+", re.UNICODE)
_FENCE = re.compile(r"^```[A-Za-z]*\s*|\s*```$")
_END = re.compile(r"[.!?…。！？؟।]+[\"'”’)\]*_]*(?=\s|$)|[。！？]")
_TITLE = re.compile(
    r"(?:\b(?:[Mm]rs?|[Mm]s|[Dd]r|[Pp]rof|[Ss]t)|\b[A-Z]|^\s*(?:[Ss]tep\s*)?\d+)\.$"
)
_ABBREVIATION = re.compile(r"\b(?:vs|etc|e\.g|i\.e|inc|ltd|jr|sr|approx|u\.s|a\.m|p\.m)\.$", re.I)


def words(text: str) -> list[str]:
    """Runs of letters, digits and underscores (``\\w+``), as IFEval counts words."""
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """Sentences, cut at a stop that is followed by a blank or the end.

    Not cut after titles, initials and list numbers, nor after other common abbreviations where
    the next letter is not upper case. A blank line also ends a sentence. Pieces without a
    letter or digit don't count.
    """
    found: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        start = 0
        for end in _END.finditer(block):
            piece = block[start : end.end()]
            if end[0] == "." and _goes_on(piece, block[end.end() :].lstrip()):
                continue
            found.append(piece)
            start = end.end()
        found.append(block[start:])
    return [piece.strip() for piece in found if re.search(r"\w", piece)]


def _goes_on(piece: str, rest: str) -> bool:
    if not rest:
        return False
    if _TITLE.search(piece):
        return True
    return bool(_ABBREVIATION.search(piece)) and not rest[0].isupper()


def unfenced(text: str) -> str:
    """The text without a Markdown code fence around it."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = _FENCE.sub("", stripped)
    return stripped.strip()
