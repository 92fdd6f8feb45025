"""Rows of a task's own file (after field mapping) turned into items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixlab.formats import CONSTRAINT_KINDS, FORMATS
from mixlab.score._task import SPLITS, Item, check_word
from mixlab.spec import MixlabError


def item_of(row: Mapping[str, Any], where: str, folder: Path, metric: str) -> Item:
    """The item that `row` holds; raises MixlabError naming `where` and the field at fault."""

    def text(name: str, default: str | None = None) -> str:
        value = row.get(name)
        if value is None:
            if default is not None:
                return default
            raise MixlabError(
                f"{where}: field {name!r} is missing; the row has {', '.join(map(str, row))}. "
                "Add it, or map another field to it under `fields:` in the task's YAML"
            )
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise MixlabError(f"{where}: {name!r} is {type(value).__name__}, expected text")
        return str(value)

    def texts(name: str) -> tuple[str, ...]:
        value = row.get(name)
        if value is None:
            return ()
        if isinstance(value, str) or not isinstance(value, list | tuple):
            raise MixlabError(f"{where}: {name!r} is {type(value).__name__}, expected a list")
        return tuple(str(part) for part in value)

    image = row.get("image")
    path = None if image is None else folder / str(image)
    if path is not None and not path.is_file():
        raise MixlabError(f"{where}: image {path} does not exist (paths are relative to the file)")
    split = text("split", "test")
    check_word(split, SPLITS, f"{where}: 'split'")
    form = text("format", "short")
    check_word(form, FORMATS, f"{where}: 'format'")
    item = Item(
        id=text("id"),
        question=text("question"),
        answer=text("answer"),
        choices=texts("choices"),
        image=path,
        scene=text("scene", ""),
        cluster=text("cluster", text("id")),
        split=split,
        role=text("role", ""),
        format=form,
        kind=text("kind", ""),
        constraints=_constraints(row, where),
        aliases=texts("aliases"),
    )
    if not item.question.strip():
        raise MixlabError(f"{where}: 'question' is empty")
    if metric == "choice" and item.answer not in item.choices:
        raise MixlabError(
            f"{where}: the gold answer {item.answer!r} is none of the choices {list(item.choices)}"
        )
    return item


def _constraints(row: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...]:
    found = row.get("constraints") or ()
    for constraint in found:
        if not isinstance(constraint, Mapping) or "kind" not in constraint:
            raise MixlabError(f"{where}: constraint {constraint!r} has no 'kind'")
        check_word(constraint["kind"], sorted(CONSTRAINT_KINDS), f"{where}: constraint kind")
    return tuple(dict(constraint) for constraint in found)
