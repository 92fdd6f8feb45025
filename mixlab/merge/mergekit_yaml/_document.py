"""Reading of mergekit files: one or more documents, checked with file and line."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mixlab.merge.mergekit_yaml._settings import MergekitSettings
from mixlab.spec import (
    Located,
    SpecError,
    apply_overrides,
    load_documents,
    locate,
    parse,
)

# Keys that mergekit's own models know, and why they are refused.
_REFUSED = {
    "residual_weight": "mergekit reads it and does nothing with it; remove it",
    "override_architecture": "not needed, tensors are known from headers; remove it",
    "out_path": "the output folder is given beside the file; remove it",
}


@dataclass(frozen=True)
class Document:
    """A document with the places of its keys; `settings` of a later one may name earlier ones.

    Args:
        unused: of the last, names of documents that the output does not need.
    """

    settings: MergekitSettings
    located: Located
    unused: tuple[str, ...] = ()


def is_mergekit(source: Mapping[str, Any] | Located | str | os.PathLike[str]) -> bool:
    """Whether data, or any document of a YAML file, speaks mergekit's language (`merge_method`).

    Raises:
        SpecError: a file cannot be read.
    """
    return any("merge_method" in located.data for located in _located(source))


def read_documents(
    source: Mapping[str, Any] | Located | str | os.PathLike[str], overrides: Iterable[str] = ()
) -> list[Document]:
    """The documents of a file, the one that makes the output last, each after those it names.

    Documents that the output does not need are checked and left out.

    Args:
        overrides: `a.b=c`, set in the document that makes the output.

    Raises:
        SpecError: every mistake with file and line; a key that is not supported is named.
    """
    parts = _located(source)
    names = [part.data.get("name") for part in parts]
    unnamed = [at for at, name in enumerate(names) if name is None]
    if len(parts) > 1 and len(unnamed) != 1:
        raise parts[unnamed[1] if unnamed else -1].error(
            (),
            f"{len(unnamed)} documents without name:; expected one, which makes the output",
        )
    final = unnamed[0] if unnamed else 0
    parts[final] = apply_overrides(parts[final], overrides)
    for part, name in zip(parts, names, strict=True):
        if len(parts) > 1 and name is not None:
            _check_name(part, name, names)
    known = frozenset(str(name) for name in names if name is not None) if len(parts) > 1 else ()
    documents = []
    for part in parts:
        refused = list(_refused(part, part.data, ()))
        if refused:
            raise refused[0]
        documents.append(Document(parse(MergekitSettings, part, context=known), part))
    return _in_order(documents, final) if len(documents) > 1 else documents


def _located(source: Mapping[str, Any] | Located | str | os.PathLike[str]) -> list[Located]:
    if isinstance(source, Located):
        return [source]
    if isinstance(source, Mapping):
        # As a finished merge of several documents records them: the last, the others in `stages`.
        last = {key: value for key, value in source.items() if key != "stages"}
        return [locate(dict(document)) for document in (*source.get("stages", ()), last)]
    return load_documents(source)


def _check_name(part: Located, name: Any, names: list[Any]) -> None:
    # It becomes a folder's name.
    if not isinstance(name, str) or not name or set(name) & set("/\\\0+@") or name[0] == ".":
        raise part.error(("name",), f"{name!r} cannot be a folder's name; use letters and digits")
    if names.count(name) > 1:
        raise part.error(("name",), f"two documents are named {name!r}; name them apart")


def _refused(located: Located, data: Any, path: tuple[str | int, ...]) -> Iterator[SpecError]:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, Mapping):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    for key, value in items:
        if key in _REFUSED and value is not None:
            yield located.error((*path, key), f"{key} is not supported: {_REFUSED[str(key)]}")
        name = ".".join(map(str, (*path, key)))
        if isinstance(value, float) and not math.isfinite(value):
            yield located.error((*path, key), f"{name}: found {value}, expected a finite number")
        yield from _refused(located, value, (*path, key))


def _in_order(documents: list[Document], final: int) -> list[Document]:
    from mixlab.merge.mergekit_yaml._slices import references

    by_name = {d.settings.name: d for d in documents if d is not documents[final]}
    ordered: list[Document] = []
    open_: list[str | None] = []

    def add(document: Document) -> None:
        if document in ordered:
            return
        if document.settings.name in open_:
            circle = " -> ".join(str(name) for name in (*open_, document.settings.name))
            raise document.located.error((), f"documents need each other in a circle: {circle}")
        open_.append(document.settings.name)
        for reference in references(document.settings):
            if reference.path in by_name:
                add(by_name[reference.path])
        open_.pop()
        ordered.append(document)

    add(documents[final])
    unused = tuple(str(name) for name, document in by_name.items() if document not in ordered)
    return [*ordered[:-1], replace(ordered[-1], unused=unused)]
