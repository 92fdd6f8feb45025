"""One row of a source, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mixlab.formats import FORMATS, recognise
from mixlab.spec import nearest

_ROLES = ("system", "user", "assistant")
_TEXTS = ("question", "answer", "image", "scene", "kind", "group", "format")


@dataclass(frozen=True, slots=True)
class Row:
    """A checked training row.

    Attributes:
        id: the row's own id, or its index.
        question, answer: bare question and canonical answer; empty for rows of `messages`.
        choices: options, or empty.
        image: path relative to the source's folder, or None.
        renderings: explicit (question, answer) by format.
        messages: a conversation that is used as it is, in format `format`.
    """

    id: str
    question: str = ""
    answer: str = ""
    choices: tuple[str, ...] = ()
    image: str | None = None
    renderings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    messages: tuple[Mapping[str, str], ...] = ()
    format: str | None = None


class RowError(ValueError):
    """What is wrong with a row; the source adds its name and the row's index."""


def read_row(data: Any, index: int, modality: str) -> Row:
    """Check one parsed JSON line.

    Raises:
        RowError: a wrong type, a missing key, an empty answer, or an image that doesn't suit the
            modality.
    """
    if not isinstance(data, dict):
        raise RowError(f"is a {type(data).__name__}; expected an object with question and answer")
    for name in _TEXTS:
        if data.get(name) is not None and not isinstance(data[name], str):
            raise RowError(f"{name!r} is {_shown(data[name])}; expected text")
    image = data.get("image")
    if modality == "text" and image is not None:
        raise RowError(
            f"has image {image!r}, but the source's modality is text; make the source "
            "modality: vision or take the image out"
        )
    if modality == "vision" and not image:
        raise RowError(
            "has no image, but the source's modality is vision; add one or make the source "
            "modality: text"
        )
    name = str(data.get("id", index))
    if data.get("messages") is not None:
        return _conversation(data, name, image)
    for key in ("question", "answer"):
        if key not in data:
            raise RowError(f"has no {key!r}; expected question and answer, or messages")
    if not data["answer"].strip():
        raise RowError("has an empty answer, so no supervised token; give one or leave the row out")
    if not data["question"].strip():
        raise RowError("has an empty question")
    return Row(
        id=name,
        question=data["question"],
        answer=data["answer"],
        choices=_choices(data.get("choices")),
        image=image,
        renderings=_renderings(data.get("renderings")),
    )


def _conversation(data: dict[str, Any], name: str, image: str | None) -> Row:
    messages = data["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise RowError("'messages' is no list of objects; expected [{role, content}, ...]")
    for turn, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            raise RowError(
                f"messages[{turn}] has role {_shown(message.get('role'))}; expected one of "
                f"{', '.join(_ROLES)}"
            )
        if not isinstance(message.get("content"), str):
            raise RowError(
                f"messages[{turn}] has content {_shown(message.get('content'))}; expected text"
            )
    answers = [m["content"] for m in messages if m["role"] == "assistant"]
    if not answers or not all(text.strip() for text in answers):
        raise RowError(
            "has no supervised token: "
            + ("an assistant turn is empty" if answers else "it has no assistant turn")
        )
    if messages[-1]["role"] != "assistant":
        raise RowError("ends with a turn that nobody answers; expected an assistant turn last")
    fmt = data.get("format") or recognise(answers[-1])
    _known(fmt)
    kept = tuple({"role": m["role"], "content": m["content"]} for m in messages)
    return Row(id=name, image=image, messages=kept, format=fmt)


def _choices(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(choice, str) for choice in value):
        raise RowError(f"'choices' is {_shown(value)}; expected a list of texts")
    return tuple(value)


def _renderings(value: Any) -> dict[str, tuple[str, str]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RowError(
            f"'renderings' is {_shown(value)}; expected {{format: {{question, answer}}}}"
        )
    made = {}
    for fmt, pair in value.items():
        _known(fmt)
        texts = (
            (pair.get("question"), pair.get("answer")) if isinstance(pair, dict) else (None, None)
        )
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise RowError(
                f"rendering {fmt!r} needs a question and an answer, both non-empty texts"
            )
        made[fmt] = (str(texts[0]), str(texts[1]))
    return made


def _known(fmt: str) -> None:
    if fmt not in FORMATS:
        raise RowError(f"has unknown output format {fmt!r}{nearest(fmt, FORMATS)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"
