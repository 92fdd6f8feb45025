"""Verify constraints on the form of a response."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mixlab.spec import MixlabError

from ._ifeval import IFEVAL, follows_ifeval, loosened
from ._names import FORMATS
from ._recognise import recognise
from ._segments import sentences, unfenced, words

_RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "exactly": lambda count, bound: count == bound,
    "at least": lambda count, bound: count >= bound,
    "at most": lambda count, bound: count <= bound,
    "less than": lambda count, bound: count < bound,
}
_QUOTES = (('"', '"'), ("“", "”"), ("``", "''"))
_BULLET = re.compile(r"^\s*(?:[-*•])\s*\S", re.MULTILINE)
_NUMBERED = re.compile(r"^\s*(\d+)[.)]\s*\S", re.MULTILINE)


def _counted(count: int, relation: str, bound: int) -> bool:
    if relation not in _RELATIONS:
        raise MixlabError(f"unknown relation {relation!r}; expected one of {', '.join(_RELATIONS)}")
    return _RELATIONS[relation](count, int(bound))


def _tokens(text: str) -> list[str]:
    """Words in lower case: spacing and punctuation around them don't matter."""
    return words(text.lower())


def _contains_words(text: str, wanted: str) -> int:
    """How often the run of words of `wanted` stands in `text`, without overlap."""
    have, need = _tokens(text), _tokens(wanted)
    if not need:
        return text.count(wanted.strip()) if wanted.strip() else 0
    found = at = 0
    while at + len(need) <= len(have):
        if have[at : at + len(need)] == need:
            found, at = found + 1, at + len(need)
        else:
            at += 1
    return found


def _begins_with(text: str, *, text_: str) -> bool:
    need = _tokens(text_)
    return bool(need) and _tokens(text)[: len(need)] == need


def _ends_with(text: str, *, text_: str) -> bool:
    need = _tokens(text_)
    return bool(need) and _tokens(text)[-len(need) :] == need


def _wrapped(text: str, opening: str, closing: str) -> bool:
    body = text.strip()
    if len(body) <= len(opening) + len(closing):
        return False
    inside = body[len(opening) : -len(closing)]
    return body.startswith(opening) and body.endswith(closing) and bool(inside.strip())


def _quoted(text: str) -> bool:
    return any(_wrapped(text, opening, closing) for opening, closing in _QUOTES)


def _numbered(text: str, *, count: int, relation: str = "exactly") -> bool:
    numbers = [int(number) for number in _NUMBERED.findall(text)]
    in_order = numbers == list(range(1, len(numbers) + 1))
    return in_order and _counted(len(numbers), relation, count)


def _json_keys(text: str, *, keys: list[str]) -> bool:
    try:
        value = json.loads(unfenced(text))
    except ValueError:
        return False
    return isinstance(value, dict) and set(keys) <= set(value)


def _has_format(text: str, *, format: str) -> bool:
    if format not in FORMATS:
        raise MixlabError(f"unknown output format {format!r}; expected one of {', '.join(FORMATS)}")
    return recognise(text) == format


_OWN: Mapping[str, Callable[..., bool]] = {
    "begins_with": _begins_with,
    "ends_with": _ends_with,
    "contains": lambda text, *, text_: _contains_words(text, text_) > 0,
    "excludes": lambda text, *, text_: _contains_words(text, text_) == 0,
    "repeats": lambda text, *, text_, times, relation="exactly": _counted(
        _contains_words(text, text_), relation, times
    ),
    "quoted": _quoted,
    "bracketed": lambda text: _wrapped(text, "[", "]"),
    "parenthesised": lambda text: _wrapped(text, "(", ")"),
    "lowercase": lambda text: text.islower(),
    "uppercase": lambda text: text.isupper(),
    "no_comma": lambda text: "," not in text,
    "one_line": lambda text: "\n" not in text.strip(),
    "words": lambda text, *, count, relation="exactly": _counted(len(words(text)), relation, count),
    "sentences": lambda text, *, count, relation="exactly": _counted(
        len(sentences(text)), relation, count
    ),
    "bullets": lambda text, *, count, relation="exactly": _counted(
        len(_BULLET.findall(text)), relation, count
    ),
    "numbered": _numbered,
    "ends_with_mark": lambda text, *, mark: text.rstrip().endswith(mark),
    "json_keys": _json_keys,
    "format": _has_format,
}

CONSTRAINT_KINDS: tuple[str, ...] = (*_OWN, *IFEVAL)
"""Every `kind` that `follows` knows: mixlab's own, then IFEval's instruction ids."""


def follows(constraint: Mapping[str, Any], response: str, *, loose: bool = False) -> bool:
    """Whether `response` follows one constraint; a pure function.

    Args:
        constraint: ``{"kind": ..., **arguments}``. mixlab's own kinds and their arguments:
            begins_with, ends_with, contains, excludes (text; compared word by word, case and
            punctuation aside); repeats (text, times, relation); quoted, bracketed,
            parenthesised (wholly, with something inside); lowercase, uppercase, no_comma,
            one_line; words, sentences, bullets, numbered (count, relation); ends_with_mark
            (mark); json_keys (keys); format (format, as `recognise` names it). A relation is
            one of exactly (the default), at least, at most, less than. A kind that holds a
            colon is an IFEval instruction id with IFEval's arguments.
        response: the model's answer. An empty one follows nothing.
        loose: also accept it without its first or last line or its asterisks, as IFEval does.

    A constraint on form alone says nothing of content: "cat" is all lower case. Items that a
    one-word answer would pass need a check of content beside this one.

    Raises:
        MixlabError: an unknown kind, or arguments that don't fit it.
    """
    given = {name: value for name, value in constraint.items() if name != "kind"}
    kind = str(constraint.get("kind"))
    if kind in IFEVAL:
        return follows_ifeval(kind, given, str(given.pop("prompt", "")), response, loose=loose)
    if kind not in _OWN:
        raise MixlabError(
            f"unknown constraint kind {kind!r}; expected one of {', '.join(CONSTRAINT_KINDS)}"
        )
    if "text" in given:
        given["text_"] = given.pop("text")
    readings = loosened(response) if loose else (response,)
    try:
        return any(text.strip() and _OWN[kind](text, **given) for text in readings)
    except TypeError as error:
        raise MixlabError(f"constraint {kind!r} doesn't take arguments {given}: {error}") from error
