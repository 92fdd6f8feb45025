"""Tasks: scored items, read from YAML and JSONL and checked row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

CONSTRUCTS = ("knowledge", "procedure", "format", "vision", "control")
METRICS = ("exact", "form", "choice")
SPLITS = ("dev", "test")
TEMPLATES = ("chat", "plain")


@dataclass(frozen=True)
class Item:
    """One scored item.

    `question` is what the model reads, `answer` the canonical answer (for `choice`, one of
    `choices`). `kind` is the question type; images are permuted within it. `cluster` names what
    items share (entity, image, passage). `ifeval` holds the (instruction id, keyword arguments)
    pairs of an IFEval row and is empty elsewhere.
    """

    id: str
    question: str
    answer: str
    choices: tuple[str, ...] = ()
    image: Path | None = None
    scene: str = ""
    cluster: str = ""
    split: str = "test"
    role: str = ""
    format: str = "short"
    kind: str = ""
    constraints: tuple[Mapping[str, Any], ...] = ()
    aliases: tuple[str, ...] = ()
    ifeval: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @property
    def golds(self) -> tuple[str, ...]:
        """The answer, then its aliases."""
        return (self.answer, *self.aliases)


@dataclass(frozen=True)
class Task:
    """Items of one construct under one metric; `template` overrides the protocol's when set."""

    name: str
    construct: str
    metric: str
    max_new_tokens: int
    items: tuple[Item, ...] = field(repr=False)
    template: str | None = None

    def __post_init__(self) -> None:
        check_word(self.construct, CONSTRUCTS, f"task {self.name!r}: construct")
        check_word(self.metric, METRICS, f"task {self.name!r}: metric")
        if self.template is not None:
            check_word(self.template, TEMPLATES, f"task {self.name!r}: template")
        if self.max_new_tokens < 1:
            raise MixlabError(
                f"task {self.name!r}: max_new_tokens is {self.max_new_tokens}; give at least 1"
            )

    def in_splits(self, splits: Sequence[str]) -> list[Item]:
        """The items of the named splits, in file order."""
        wanted = set(splits)
        return [item for item in self.items if item.split in wanted]


def check_word(found: str, allowed: Sequence[str], where: str) -> None:
    """Raise MixlabError naming `where` unless `found` is one of `allowed`."""
    if found not in allowed:
        raise MixlabError(f"{where} is {found!r}; expected one of {', '.join(allowed)}")


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, row) of a JSONL or Parquet file; `where` is "file:line" or "file row n".

    Raises MixlabError where a line is no JSON object, naming it.
    """
    if not path.is_file():
        raise MixlabError(f"{path}: no such items file; check `items:` in the task's YAML")
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        for number, row in enumerate(pq.read_table(path).to_pylist(), start=1):
            yield f"{path} row {number}", row
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise MixlabError(f"{where}: not JSON ({error.msg}); one object a line") from error
            if not isinstance(row, dict):
                raise MixlabError(f"{where}: found {type(row).__name__}, expected a JSON object")
            yield where, row
