"""Score one response: exact by the protocol's extractor, form by the format asked for."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from string import ascii_lowercase

from mixlab import formats
from mixlab.score._extract import (
    json_answer,
    mentions,
    normalise,
    read_letter,
    read_number,
    read_texts,
)
from mixlab.score._numbers import as_number, numbers
from mixlab.score._protocol import Protocol
from mixlab.score._task import Item
from mixlab.spec import MixlabError


def judge(item: Item, metric: str, response: str, protocol: Protocol) -> float:
    """1.0 or 0.0 for a generated response under `exact` or `form`."""
    if not response.strip():
        return 0.0
    if metric == "form":
        return float(form_right(item, response, loose=protocol.loose))
    if protocol.extractor == "strict":
        return float(strict_right(item, response, fold=protocol.case == "fold"))
    return float(semantic_right(item, response))


def strict_right(item: Item, response: str, *, fold: bool = False) -> bool:
    """Whether the whole stripped response is the answer in the form asked for.

    short (and every form that is not named here): equal to the answer or an alias. letter: the
    bare letter, either case. json: one object with one key whose value is the answer. sentence,
    long, steps: the response has that form and reads as the answer, as no one text is the gold.
    `fold` ignores case.
    """
    body = response.strip()
    if item.format == "letter":
        return body.casefold() in gold_letters(item)
    if item.format in ("sentence", "long", "steps"):
        return formats.recognise(body) == item.format and semantic_right(item, body)
    if item.format == "json":
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return False
        if not isinstance(value, dict) or len(value) != 1:
            return False
        body = str(next(iter(value.values())))
    golds = [gold.strip() for gold in item.golds]
    if fold:
        return body.casefold() in {gold.casefold() for gold in golds}
    return body in golds


def semantic_right(item: Item, response: str) -> bool:
    """Whether a reader of JSON, boxed and stated answers, numbers and letters finds the gold."""
    if item.format == "letter":
        return read_letter(response, letters_of(item)) in gold_letters(item)
    wanted = [_number_of(gold) for gold in item.golds]
    if all(value is not None for value in wanted):
        return read_number(response) in wanted
    golds = {normalise(gold) for gold in item.golds}
    return any(reading in golds for reading in read_texts(response, item.choices))


def form_right(item: Item, response: str, *, loose: bool = False) -> bool:
    """Whether the response has the form asked for, follows every constraint, and is right.

    A one-word answer passes many constraints by accident ("cat" is all lower case), so the
    content counts too; rows of IFEval have no gold and are judged on their instructions alone
    (prompt level: all of them). The extractor plays no part: the form is the skill. `loose`
    also tries the response without its first line, its last line and asterisks (IFEval's rule,
    arXiv:2311.07911).
    """
    if item.ifeval:
        return all(
            formats.follows_ifeval(name, dict(kwargs), item.question, response, loose=loose)
            for name, kwargs in item.ifeval
        )
    for constraint in item.constraints:
        if not formats.follows(dict(constraint), response, loose=loose):
            return False
    if item.format == "constrained":
        return content_right(item, response)
    return any(
        _has_form(item, body) and content_right(item, body)
        for body in (variants(response) if loose else [response])
    )


def content_right(item: Item, response: str) -> bool:
    """Whether the content is right, whatever the form: read as the answer, or mentioned.

    Where the item has choices, naming another choice too is no answer. A short answer must be
    the answer itself, JSON must hold it as its value.
    """
    if item.format == "letter":
        return semantic_right(item, response)
    if item.format == "json":
        value = json_answer(response)
        return value is not None and _same(item, value)
    if item.format == "short":
        return _same(item, response)
    body = normalise(response)
    golds = {normalise(gold) for gold in item.golds}
    rivals = [choice for choice in item.choices if normalise(choice) not in golds]
    if any(mentions(body, rival) for rival in rivals):
        return False
    if semantic_right(item, response) or any(mentions(body, gold) for gold in item.golds):
        return True
    wanted = {_number_of(gold) for gold in item.golds} - {None}
    return bool(wanted) and bool(wanted.intersection(numbers(response)))


def variants(response: str) -> list[str]:
    """The response and IFEval's seven loose forms of it, empty ones left out."""
    lines = response.split("\n")
    cut = [lines, lines[1:], lines[:-1], lines[1:-1]]
    texts = ["\n".join(part).strip() for part in cut]
    texts += [text.replace("*", "") for text in texts]
    return [text for text in dict.fromkeys(texts) if text]


def letters_of(item: Item) -> dict[str, str]:
    """Letter (lower case) to choice, as the question shows them, else in list order."""
    shown: dict[str, str] = {}
    for choice in item.choices:
        option = rf"(?<![A-Za-z])\(?([A-Za-z])[).:]\s*{re.escape(choice)}(?!\w)"
        match = re.search(option, item.question)
        if match:
            shown[match[1].lower()] = choice
    if item.choices and len(shown) == len(item.choices):
        return shown
    if item.choices:
        return dict(zip(ascii_lowercase, item.choices, strict=False))
    return dict.fromkeys(ascii_lowercase, "")


def gold_letters(item: Item) -> set[str]:
    """The letters that are right, lower case; the gold may be a letter or a choice's text."""
    letters = letters_of(item)
    golds = {gold.strip() for gold in item.golds}
    by_text = {letter for letter, choice in letters.items() if choice in golds}
    return by_text or {gold.lower() for gold in golds if gold.lower() in letters}


def check_gold(item: Item, metric: str, where: str) -> None:
    """Raise MixlabError naming `where` if no response could score, whatever the extractor."""
    if item.ifeval:
        return
    if metric == "choice":
        if len(set(item.choices)) < 2:
            raise MixlabError(f"{where}: {len(set(item.choices))} distinct choices; needs 2")
        return
    if item.format == "letter" and not gold_letters(item):
        raise MixlabError(
            f"{where}: no letter stands for the gold answer {item.answer!r}; "
            f"choices: {list(item.choices)}"
        )
    if not normalise(item.answer):
        raise MixlabError(
            f"{where}: no extractor can produce the gold answer {item.answer!r}; "
            "it has no letter or digit"
        )
    if metric == "form" and item.format == "constrained" and not item.constraints:
        raise MixlabError(
            f"{where}: format 'constrained' without 'constraints'; any response would pass"
        )
    if item.format != "letter" and not semantic_right(item, item.answer):
        raise MixlabError(
            f"{where}: no extractor can produce the gold answer {item.answer!r}: the answer "
            "itself reads as something else; give the canonical short answer"
        )


def _number_of(gold: str) -> Fraction | None:
    """The number that a gold is; 007 is a name, not seven."""
    return None if re.match(r"\s*0\d", gold) else as_number(gold)


def _same(item: Item, text: str) -> bool:
    number = as_number(text)
    return any(
        normalise(text) == normalise(gold) or (number is not None and number == _number_of(gold))
        for gold in item.golds
    )


def _has_form(item: Item, body: str) -> bool:
    return formats.recognise(body) == item.format
