"""Verify IFEval's instructions (Zhou et al. 2023, arXiv:2311.07911), offline.

The definitions follow the paper and what its published checker accepts, in code of our own:
every instruction id, the same relations ("at least", "less than"), regular expressions of the
same reach. Known differences: sentences are cut by rule instead of by NLTK's punkt model,
languages are told by `detect_language` instead of an unseeded langdetect, and keywords are
taken literally rather than as regular expressions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mixlab.spec import MixlabError

from ._language import detect_language
from ._segments import sentences, words

_CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_CAPITAL = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")


def _relation(count: int, relation: str, bound: int) -> bool:
    if relation == "at least":
        return count >= bound
    if relation == "less than":
        return count < bound
    raise MixlabError(f"unknown relation {relation!r}; expected 'at least' or 'less than'")


def _keywords_existence(text: str, *, keywords: list[str]) -> bool:
    return all(word.lower() in text.lower() for word in keywords)


def _keyword_frequency(text: str, *, keyword: str, frequency: int, relation: str) -> bool:
    return _relation(text.lower().count(keyword.strip().lower()), relation, int(frequency))


def _forbidden_words(text: str, *, forbidden_words: list[str]) -> bool:
    return not any(
        re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) for word in forbidden_words
    )


def _letter_frequency(text: str, *, letter: str, let_frequency: int, let_relation: str) -> bool:
    return _relation(text.lower().count(letter.lower()), let_relation, int(let_frequency))


def _number_sentences(text: str, *, num_sentences: int, relation: str) -> bool:
    return _relation(len(sentences(text)), relation, int(num_sentences))


def _number_words(text: str, *, num_words: int, relation: str) -> bool:
    return _relation(len(words(text)), relation, int(num_words))


def _inner_blank(parts: list[str]) -> bool:
    """Blank parts are forgiven at either end only."""
    return any(not part.strip() for part in parts[1:-1])


def _number_paragraphs(text: str, *, num_paragraphs: int) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", text)
    filled = sum(bool(part.strip()) for part in parts)
    return not _inner_blank(parts) and filled == int(num_paragraphs)


def _nth_paragraph_first_word(
    text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
    parts = text.split("\n\n")
    filled = sum(bool(part.strip()) for part in parts)
    nth = int(nth_paragraph)
    if nth > filled or filled != int(num_paragraphs):
        return False
    opening = parts[nth - 1].split()[:1]
    if not opening:
        return False
    bare = re.split(r"[.,?!'\"]", opening[0].lstrip("'\""))[0]
    return bare.lower() == first_word.lower()


def _placeholders(text: str, *, num_placeholders: int) -> bool:
    return len(re.findall(r"\[.*?\]", text)) >= int(num_placeholders)


def _postscript(text: str, *, postscript_marker: str) -> bool:
    spaced = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    marker = spaced.get(postscript_marker.strip(), re.escape(postscript_marker.strip().lower()))
    return re.search(marker, text.lower()) is not None


def _bullets(text: str, *, num_bullets: int) -> bool:
    starred = re.findall(r"^\s*\*[^*].*$", text, re.MULTILINE)
    dashed = re.findall(r"^\s*-.*$", text, re.MULTILINE)
    return len(starred) + len(dashed) == int(num_bullets)


def _constrained_response(text: str) -> bool:
    return any(choice in text for choice in _CHOICES)


def _highlights(text: str, *, num_highlights: int) -> bool:
    single = re.findall(r"\*[^\n*]*\*", text)
    double = re.findall(r"\*\*[^\n*]*\*\*", text)
    filled = sum(bool(mark.strip("*").strip()) for mark in [*single, *double])
    return filled >= int(num_highlights)


def _sections(text: str, *, section_spliter: str, num_sections: int) -> bool:
    found = re.findall(rf"\s?{re.escape(section_spliter.strip())}\s?\d+\s?", text)
    return len(found) >= int(num_sections)


def _json_format(text: str) -> bool:
    body = re.sub(r"^```(?:json|JSON|Json)?|```$", "", text.strip()).strip()
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _title(text: str) -> bool:
    return any(mark.lstrip("<").rstrip(">").strip() for mark in re.findall(r"<<[^\n]+>>", text))


def _two_responses(text: str) -> bool:
    parts = text.split("******")
    filled = [part.strip() for part in parts if part.strip()]
    return not _inner_blank(parts) and len(filled) == 2 and filled[0] != filled[1]


def _repeat_prompt(text: str, *, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _end_checker(text: str, *, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def _quotation(text: str) -> bool:
    body = text.strip()
    return len(body) > 1 and body[0] == body[-1] == '"'


def _english(text: str) -> bool:
    return detect_language(text.lower()) in {"en", None}


def _capital_word_frequency(text: str, *, capital_frequency: int, capital_relation: str) -> bool:
    shouted = sum(token.isupper() for token in _CAPITAL.findall(text))
    return _relation(shouted, capital_relation, int(capital_frequency))


IFEVAL: Mapping[str, Callable[..., bool]] = {
    "keywords:existence": _keywords_existence,
    "keywords:frequency": _keyword_frequency,
    "keywords:forbidden_words": _forbidden_words,
    "keywords:letter_frequency": _letter_frequency,
    "language:response_language": lambda text, *, language: detect_language(text) == language,
    "length_constraints:number_sentences": _number_sentences,
    "length_constraints:number_paragraphs": _number_paragraphs,
    "length_constraints:number_words": _number_words,
    "length_constraints:nth_paragraph_first_word": _nth_paragraph_first_word,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:constrained_response": _constrained_response,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _json_format,
    "detectable_format:title": _title,
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeat_prompt,
    "startend:end_checker": _end_checker,
    "startend:quotation": _quotation,
    "change_case:english_capital": lambda text: text.isupper() and _english(text),
    "change_case:english_lowercase": lambda text: text.islower() and _english(text),
    "change_case:capital_word_frequency": _capital_word_frequency,
    "punctuation:no_comma": lambda text: "," not in text,
}
"""IFEval instruction id -> verifier of (response, keyword arguments of the row)."""


def loosened(response: str) -> tuple[str, ...]:
    """The eight readings of IFEval's loose score: as it is, without its first line, without
    its last, without both, and each of these without asterisks."""
    lines = response.split("\n")
    cuts = [lines, lines[1:], lines[:-1], lines[1:-1]]
    plain = ["\n".join(cut).strip() for cut in cuts]
    plain[0] = response
    return (*plain, *(text.replace("*", "") for text in plain))


def follows_ifeval(
    instruction: str,
    kwargs: Mapping[str, Any],
    prompt: str,
    response: str,
    *,
    loose: bool = False,
) -> bool:
    """Whether `response` follows one IFEval instruction.

    Args:
        instruction: the row's instruction id, such as ``punctuation:no_comma``.
        kwargs: the row's arguments for it; None values, which some exports hold, are dropped.
        prompt: the prompt; used by ``combination:repeat_prompt`` where the row holds none.
        response: the model's answer. An empty one follows nothing.
        loose: IFEval's loose score: any of the eight `loosened` readings will do.

    Raises:
        MixlabError: an unknown id, or arguments that don't fit it.
    """
    if instruction not in IFEVAL:
        raise MixlabError(
            f"unknown IFEval instruction {instruction!r}; expected one of {', '.join(IFEVAL)}"
        )
    given = {name: value for name, value in kwargs.items() if value is not None}
    if instruction == "combination:repeat_prompt":
        given.setdefault("prompt_to_repeat", prompt)
    readings = loosened(response) if loose else (response,)
    try:
        return any(text.strip() and IFEVAL[instruction](text, **given) for text in readings)
    except TypeError as error:
        raise MixlabError(
            f"IFEval instruction {instruction!r} doesn't take arguments {given}: {error}"
        ) from error
