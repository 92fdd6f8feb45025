"""Phrasebooks: how each output format is asked for, and how an answer in it is worded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError, SpecError, load_yaml, nearest

from ._names import FORMATS

_NEEDED = ("name", "instructions", "answers")
_PATTERNED = ("short", "sentence", "long", "steps")


@dataclass(frozen=True)
class ConstraintWording:
    """One verifiable constraint: the instruction, the worded answer and the check.

    Args:
        kind: name of the constraint within its phrasebook; drawn by key.
        instructions: wordings that ask for it.
        answer: pattern of the answer, with ``{answer}`` or ``{ANSWER}`` (upper case).
        constraint: the constraint as `follows` takes it; text values may hold ``{answer}``.
    """

    kind: str
    instructions: tuple[str, ...]
    answer: str
    constraint: Mapping[str, Any]


@dataclass(frozen=True)
class Phrasebook:
    """Wordings for every output format, as data.

    Args:
        name: shown in errors.
        instructions: format -> wordings of the instruction that asks for it. An empty string
            asks for nothing. `constrained` has its wordings in `constraints`.
        answers: format (short, sentence, long, steps) -> patterns that hold ``{answer}``.
            `letter` and `json` need none: the answer is the letter, or a JSON object.
        constraints: the constraints that `constrained` draws from.
        layout: how a question and its instruction are joined.
        letter_layout: the same with ``{options}``.
        option: one option, with ``{letter}`` and ``{choice}``.
        option_separator: text between options.
        json_key: key of the JSON object.

    Raises:
        MixlabError: a format has no wording, an unknown format, or a pattern that would
            lose the answer.
    """

    name: str
    instructions: Mapping[str, tuple[str, ...]]
    answers: Mapping[str, tuple[str, ...]]
    constraints: tuple[ConstraintWording, ...] = field(default=())
    layout: str = "{question} {instruction}"
    letter_layout: str = "{question}\n{options}\n{instruction}"
    option: str = "({letter}) {choice}"
    option_separator: str = "\n"
    json_key: str = "answer"

    def __post_init__(self) -> None:
        for table in (self.instructions, self.answers):
            for fmt, wordings in table.items():
                if fmt not in FORMATS:
                    raise self._error(f"unknown format {fmt!r}; expected one of {FORMATS}")
                if isinstance(wordings, str) or not wordings:
                    raise self._error(f"format {fmt!r} needs a list of at least one wording")
        for fmt, patterns in self.answers.items():
            for pattern in patterns:
                if "{answer}" not in pattern and "{ANSWER}" not in pattern:
                    raise self._error(f"the {fmt} pattern {pattern!r} lacks {{answer}}")

    def _error(self, message: str) -> MixlabError:
        return MixlabError(f"phrasebook {self.name!r}: {message}")

    def supports(self, fmt: str) -> bool:
        """Whether this phrasebook can render `fmt`."""
        if fmt == "constrained":
            return bool(self.constraints)
        return fmt in self.instructions and (fmt not in _PATTERNED or fmt in self.answers)

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Phrasebook:
        """Build a phrasebook from plain data, as a YAML file holds it.

        Raises:
            MixlabError: an unknown or missing key, or a value of another shape.
        """
        values = dict(data)
        _check_keys("phrasebook", data, cls.__dataclass_fields__, _NEEDED)
        for name in ("instructions", "answers"):
            if not isinstance(data[name], Mapping):
                raise MixlabError(f"phrasebook: {name} is no mapping from format to wordings")
            values[name] = {fmt: _texts(texts) for fmt, texts in data[name].items()}
        constraints = []
        for entry in data.get("constraints", ()):
            fields = ConstraintWording.__dataclass_fields__
            _check_keys("phrasebook, constraints", entry, fields, tuple(fields))
            wordings = _texts(entry["instructions"])
            constraints.append(ConstraintWording(**{**entry, "instructions": wordings}))
        values["constraints"] = tuple(constraints)
        return cls(**values)

    @classmethod
    def read(cls, path: Path) -> Phrasebook:
        """Read a phrasebook from a YAML file; errors as in `from_mapping`, with the file."""
        try:
            return cls.from_mapping(load_yaml(path).data)
        except SpecError:
            raise
        except MixlabError as error:
            raise MixlabError(f"{path}: {error}") from error


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise MixlabError(f"phrasebook: found {value!r}; expected a list of wordings")
    return tuple(value)


def _check_keys(where: str, data: Any, known: Collection[str], needed: tuple[str, ...]) -> None:
    if not isinstance(data, Mapping):
        raise MixlabError(f"{where}: found {data!r}; expected a mapping")
    for key in data:
        if key not in known:
            raise MixlabError(f"{where}: unknown key {key!r}{nearest(key, known)}")
    if missing := [key for key in needed if key not in data]:
        raise MixlabError(f"{where}: key {missing[0]!r} is missing")


ENGLISH = Phrasebook.read(Path(__file__).with_name("english.yaml"))
"""Plain English in normal case."""
