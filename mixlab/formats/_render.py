"""Render a question and its short answer into an output format."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from mixlab.spec import MixlabError

from ._names import FORMATS
from ._phrasebook import ENGLISH, ConstraintWording, Phrasebook
from ._recognise import recognise

_PLACEHOLDER = re.compile(r"\{(question|instruction|options|answer|ANSWER|letter|choice)\}")
_SHORT_WORDS = 8


@dataclass(frozen=True)
class Rendering:
    """A question that asks for a format and the answer in that format.

    Args:
        question: the prompt's text, instruction included.
        answer: the supervised text.
        format: one of `FORMATS`.
        constraints: for `constrained`, what `follows` must hold of the answer; else empty.
        choices: for `letter`, the options in the order shown; else empty.
    """

    question: str
    answer: str
    format: str
    constraints: tuple[dict[str, Any], ...] = ()
    choices: tuple[str, ...] = ()


def renderable(question: str, answer: str, choices: Sequence[str] | None = None) -> tuple[str, ...]:
    """The formats that a row can be rendered to, in the order of `FORMATS`.

    A short answer (at most 8 words on one line, no full sentence) goes into every format,
    `letter` only with 2 to 26 distinct choices of which one is the answer. A longer answer is
    not rewritten: it keeps the format in which it came, and can be wrapped as `json`.
    """
    if not question.strip() or not answer.strip():
        return ()
    if _is_short(answer):
        return tuple(f for f in FORMATS if f != "letter" or _fits_letter(answer, choices))
    own = recognise(answer)
    return tuple(f for f in FORMATS if f in {own, "json"})


def render(
    fmt: str,
    *,
    question: str,
    answer: str,
    choices: Sequence[str] | None = None,
    key: str,
    phrasebook: Phrasebook = ENGLISH,
    constraint: str | None = None,
) -> Rendering:
    """Render one row into `fmt`; the same arguments always give the same rendering.

    Args:
        fmt: one of `FORMATS`.
        question: the bare question.
        answer: the canonical short answer.
        choices: options, needed for `letter`.
        key: decides the wording, the order of the options and the constraint (by SHA-256, so
            it is the same in every process).
        phrasebook: the wordings.
        constraint: kind of constraint to use for `constrained`; drawn by `key` if None.

    Raises:
        MixlabError: an unknown format, or one that this row or phrasebook can't give.
    """
    if fmt not in FORMATS:
        raise MixlabError(f"unknown output format {fmt!r}; expected one of {', '.join(FORMATS)}")
    if not phrasebook.supports(fmt):
        raise MixlabError(f"phrasebook {phrasebook.name!r} has no wording for format {fmt!r}")
    possible = renderable(question, answer, choices)
    if fmt not in possible:
        raise MixlabError(
            f"a row with answer {answer[:60]!r} and {len(choices or ())} choices can't be rendered "
            f"to {fmt!r}; it can be rendered to: {', '.join(possible) or 'nothing'}"
        )
    if fmt == "constrained":
        return _constrained(question, answer, key, phrasebook, constraint)
    instruction = _pick(phrasebook.instructions[fmt], key, fmt, "instruction")
    if fmt == "letter":
        return _letter(question, answer, tuple(choices or ()), instruction, key, phrasebook)
    asked = _join(phrasebook.layout, question=question, instruction=instruction)
    if fmt == "json":
        text = json.dumps({phrasebook.json_key: answer}, ensure_ascii=False)
    elif not _is_short(answer):
        text = answer
    else:
        text = _word(_pick(phrasebook.answers[fmt], key, fmt, "answer"), answer)
    return Rendering(asked, text, fmt)


def _letter(
    question: str,
    answer: str,
    choices: tuple[str, ...],
    instruction: str,
    key: str,
    book: Phrasebook,
) -> Rendering:
    # Sorting by a hash that holds the choice's text makes the order independent of the order
    # in which the row lists its choices.
    shown = tuple(sorted(choices, key=lambda choice: _hash(key, "order", choice)))
    options = book.option_separator.join(
        _fill(book.option, letter=letter, choice=choice)
        for letter, choice in zip(ascii_lowercase, shown, strict=False)
    )
    asked = _join(book.letter_layout, question=question, options=options, instruction=instruction)
    return Rendering(asked, ascii_lowercase[shown.index(answer)], "letter", choices=shown)


def _constrained(
    question: str, answer: str, key: str, book: Phrasebook, kind: str | None
) -> Rendering:
    wording: ConstraintWording
    if kind is None:
        wording = book.constraints[_hash(key, "constraint") % len(book.constraints)]
    else:
        known = {entry.kind: entry for entry in book.constraints}
        if kind not in known:
            raise MixlabError(
                f"phrasebook {book.name!r} has no constraint {kind!r}; it has {sorted(known)}"
            )
        wording = known[kind]
    instruction = _pick(wording.instructions, key, "constrained", "instruction")
    check = {
        name: _fill(value, answer=answer, ANSWER=answer.upper())
        if isinstance(value, str)
        else value
        for name, value in wording.constraint.items()
    }
    asked = _join(book.layout, question=question, instruction=instruction)
    text = _fill(wording.answer, answer=answer, ANSWER=answer.upper())
    return Rendering(asked, text, "constrained", constraints=(check,))


def _word(pattern: str, answer: str) -> str:
    # "The answer is U.S.." would have two stops.
    if pattern.endswith(("{answer}.", "{answer} .")) and answer.endswith("."):
        answer = answer[:-1]
    return _fill(pattern, answer=answer, ANSWER=answer.upper())


def _fill(pattern: str, **values: str) -> str:
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), pattern)


def _join(layout: str, **values: str) -> str:
    """Fill a layout; an empty instruction leaves no trailing blank."""
    return _fill(layout, **values).strip()


def _pick(texts: Sequence[str], key: str, fmt: str, what: str) -> str:
    return texts[_hash(key, fmt, what) % len(texts)]


def _hash(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\x1f".join(parts).encode()).digest()[:8], "big")


def _is_short(answer: str) -> bool:
    words = answer.split()
    if "\n" in answer or len(words) > _SHORT_WORDS:
        return False
    return not (len(words) >= 3 and answer.rstrip().endswith((".", "!", "?")))


def _fits_letter(answer: str, choices: Sequence[str] | None) -> bool:
    return (
        choices is not None
        and 2 <= len(choices) <= len(ascii_lowercase)
        and len(set(choices)) == len(choices)
        and answer in choices
    )
