"""Read an answer out of a response: what a strict and what a semantic reader sees.

One generation set scores .20 or .785 by extractor alone (lm-evaluation-harness#2034), so a
protocol names its extractor and one generation is read by all of them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from fractions import Fraction
from typing import Any

from mixlab.score._numbers import as_number, numbers

_KEYS = ("answer", "final_answer", "final", "result", "value", "solution", "output", "response")
_MARK = re.compile(
    r"####|\b(?:answer|result|solution)\b(?!\s+(?:is|was)\s+(?:not|wrong|right|correct))"
    r"[*_\"']*\s*(?:is|are|was|would be|should be|:|=)+[*_\"']*\s*(?:that\b|:)?",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?:\s+|$)|\n")
_REASON = re.compile(r",?\s*\b(?:because|since|so that)\b", re.IGNORECASE)
_COPULA = re.compile(r"\s(?:is|are|was|were|equals|means|=)\s", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|an?|that|called|named)\s+", re.IGNORECASE)
_BRACKETED = re.compile(r"\([^()]*\)")
_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:,]?\s*$|\(?([A-Za-z])[).:]\s+\S|\(([A-Za-z])\)")
_NAMED = re.compile(r"\b(?:option|choice|letter)\s+\(?([A-Za-z])\b", re.IGNORECASE)
# A response can be a megabyte of noise; an answer stands near one of its ends.
_MOST = 20_000


def normalise(text: str) -> str:
    """Fold case and width, collapse blanks, drop outer marks and a leading article."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    while True:
        bare = _ARTICLE.sub("", folded.strip(" \t\"'`*_.,;:!?()[]{}“”‘’<>"))
        if bare == folded:
            return bare
        folded = bare


def read_number(response: str) -> Fraction | None:
    """The number a semantic reader takes as the answer, or None.

    In this order: the answer of a JSON object, the last `\\boxed{}`, the number after the last
    "####", "answer is" or "answer:" that has one, the last number outside brackets that is not
    part of a reason ("because 20-2"), the last number at all.
    """
    text = _clip(response)
    for value in _stated(text):
        found = as_number(value)
        if found is not None:
            return found
        if several := numbers(value):
            return several[0]
    marks = list(_MARK.finditer(text))
    for mark in reversed(marks):
        clause = text[mark.end() : mark.end() + 200].split("\n\n")[0]
        if several := numbers(clause):
            return several[0]
    for body in (_BRACKETED.sub(" ", text), text):
        pieces = [_without_reason(piece) for piece in _SENTENCE_END.split(body)]
        for piece in reversed(pieces):
            if several := numbers(piece):
                return several[-1]
    return None


def read_letter(response: str, letters: dict[str, str]) -> str | None:
    """The letter chosen, lower case, or None; `letters` maps each letter to its choice's text.

    Reads `b`, `(b)`, `b) blue`, "option b", "the answer is b", a JSON or boxed answer, and the
    text of one choice alone. The article in "a cat" is no letter.
    """
    text = _clip(response).strip()
    candidates = [*_stated(text)]
    candidates += [text[mark.end() : mark.end() + 200] for mark in _reversed_marks(text)]
    candidates.append(text)
    for candidate in candidates:
        body = candidate.strip().lstrip("*_\"' ")
        match = _LETTER.match(body)
        found = next((part for part in match.groups() if part), None) if match else None
        if found and found.lower() in letters:
            return found.lower()
    for candidate in candidates:
        named = _NAMED.findall(candidate)
        if named and named[-1].lower() in letters:
            return str(named[-1].lower())
    for candidate in candidates:
        mentioned = [
            letter for letter, choice in letters.items() if choice and mentions(candidate, choice)
        ]
        if len(mentioned) == 1:
            return mentioned[0]
    return None


def read_texts(response: str, choices: tuple[str, ...] = ()) -> list[str]:
    """The normalised texts that may be the answer, most explicit first (at most eight).

    Only the first kind that is present counts: JSON, boxed, then a stated answer. Without them:
    the whole response, what follows or precedes the verb of its last and first sentence, its
    last line, and the one choice it mentions.
    """
    text = _clip(response).strip()
    if stated := _stated(text):
        return _unique([stated[0]])
    if marks := _reversed_marks(text):
        clause = _SENTENCE_END.split(text[marks[0].end() :].strip(), maxsplit=1)[0]
        clause = _without_reason(clause)
        return _unique([clause, _BRACKETED.sub(" ", clause), clause.split(",")[0]])
    sentences = [piece for piece in _SENTENCE_END.split(text) if piece and piece.strip()]
    found = [text]
    for sentence in dict.fromkeys((*sentences[-1:], *sentences[:1])):
        bare = _without_reason(sentence)
        found.append(bare)
        if parts := list(_COPULA.finditer(bare)):
            found += [bare[parts[-1].end() :], bare[: parts[0].start()]]
    mentioned = [choice for choice in choices if mentions(text, choice)]
    if len(mentioned) == 1:
        found.append(mentioned[0])
    return _unique(found)


def mentions(response: str, gold: str) -> bool:
    """Whether `gold` stands in the response as whole words, case aside; 18 is not in 18.5."""
    body = " ".join(unicodedata.normalize("NFKC", response).casefold().split())
    word = " ".join(unicodedata.normalize("NFKC", gold).casefold().split())
    if not word:
        return False
    before = r"(?<!\w)(?<!\d[.,])" if word[0].isalnum() else ""
    if word[0].isdigit():
        before += r"(?<!-)"
    after = r"(?!\w)(?![.,]\d)" if word[-1].isalnum() else ""
    return re.search(before + re.escape(word) + after, body) is not None


def json_answer(response: str) -> str | None:
    """The answer of the last JSON object in the response, or None.

    Its key is `answer` or another of a few names, else the only key there is.
    """
    text = _clip(response)
    decoder = json.JSONDecoder()
    starts = [match.start() for match in re.finditer(r"\{", text)][-50:]
    end = -1
    last: dict[str, Any] | None = None
    for start in starts:
        if start < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            last = value
    if not last:
        return None
    folded = {str(key).casefold().replace(" ", "_"): value for key, value in last.items()}
    keys = [key for key in _KEYS if key in folded] or (list(folded) if len(folded) == 1 else [])
    for key in keys:
        value = folded[key]
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
    return None


def _stated(text: str) -> list[str]:
    """Answers that the form itself marks: JSON, then boxed; nothing where there is neither."""
    value = json_answer(text)
    boxed = _boxed(text)
    return [part for part in (value, boxed) if part is not None]


def _boxed(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    begin = start + len("\\boxed")
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            inner = text[begin + 1 : place]
            inner = re.sub(r"\\d?frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2", inner)
            inner = re.sub(r"\\text\w*\{([^{}]*)\}", r"\1", inner)
            return re.sub(r"\\[,;! ]", "", inner).replace("\\$", "$").replace("\\%", "%")
    return None


def _reversed_marks(text: str) -> list[re.Match[str]]:
    return [mark for mark in reversed(list(_MARK.finditer(text))) if text[mark.end() :].strip()]


def _without_reason(sentence: str) -> str:
    match = _REASON.search(sentence)
    return sentence if match is None or match.start() == 0 else sentence[: match.start()]


def _unique(texts: list[str]) -> list[str]:
    return [text for text in dict.fromkeys(normalise(text) for text in texts) if text]


def _clip(text: str) -> str:
    return text if len(text) <= 2 * _MOST else text[:_MOST] + "\n" + text[-_MOST:]
