"""Recognise, by rule, the output format of a text that comes as it is."""

from __future__ import annotations

import json
import re

from ._segments import sentences, unfenced

_LETTER = re.compile(r"^\(?[A-Za-z]\)?[.:]?$|^\(?[A-Za-z][).:]\s+\S.{0,60}$")
_STEP = re.compile(r"\bstep\s*\d+\b", re.IGNORECASE)
_NUMBERED = re.compile(r"^\s*\d+[.)]\s+\S", re.MULTILINE)
_VERB = re.compile(r"\b(is|are|was|were|has|have|had|does|do|did|can|will|shows?|means)\b", re.I)
_MARKED = re.compile(
    r'^".*"$|^“.*”$|^\[.*\]$|^(-|\*|•)\s+\S.*$|^ok\b.*$|^.*\bdone\.?$', re.IGNORECASE | re.DOTALL
)


def recognise(text: str) -> str:
    """Name the output format of `text`, by rules tried in this order.

    json: parses as a JSON object or array, code fence or not. letter: one letter, with or
    without brackets, or ``(b) blue``. steps: two "step N" or two numbered lines. constrained:
    only where the form shows in a text of at most 12 words (wholly in quotes or brackets, one
    bullet, said twice, begins with ok, ends with done, all capitals); a constraint that leaves
    no such mark can't be seen in the answer alone. long: two sentences or more, or more than
    30 words. sentence: ends with a stop and has 3 words, or has 4 words and a common verb.
    short: the rest.
    """
    stripped = text.strip()
    if _is_json(stripped):
        return "json"
    if _LETTER.match(stripped):
        return "letter"
    if len(_STEP.findall(stripped)) >= 2 or len(_NUMBERED.findall(stripped)) >= 2:
        return "steps"
    words = stripped.split()
    if len(words) <= 12 and (_MARKED.match(stripped) or _doubled(words) or _shouted(stripped)):
        return "constrained"
    if len(sentences(stripped)) >= 2 or len(words) > 30:
        return "long"
    ends = stripped.endswith((".", "!", "?", "…"))
    if (ends and len(words) >= 3) or (len(words) >= 4 and _VERB.search(stripped)):
        return "sentence"
    return "short"


def _is_json(text: str) -> bool:
    body = unfenced(text)
    if not body.startswith(("{", "[")):
        return False
    try:
        return isinstance(json.loads(body), (dict, list))
    except ValueError:
        return False


def _doubled(words: list[str]) -> bool:
    half, odd = divmod(len(words), 2)
    return half > 0 and not odd and words[:half] == words[half:]


def _shouted(text: str) -> bool:
    # Up to three capitals in one word is an acronym (USA), not an obeyed instruction.
    return text.isupper() and len(re.findall(r"[^\W\d_]", text)) >= 4
