"""The keys of a mergekit file, checked with file and line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mixlab.merge.mergekit_yaml._references import Model
from mixlab.spec import (
    Located,
    Settings,
    SpecError,
    apply_overrides,
    load_documents,
    locate,
    parse,
)

Parameters = dict[str, Any] | None
Dtype = Literal["float32", "float16", "bfloat16", "float64"]
# Text is taken for a model only where it is none of the words.
_FIRST = Field(union_mode="left_to_right")
TokenizerChoice = Annotated[Literal["union", "base"] | Model, _FIRST]
# Keys that mergekit's own models know, and why they are refused.
_REFUSED = {
    "residual_weight": "mergekit reads it and does nothing with it; remove it",
    "override_architecture": "not needed, tensors are known from headers; remove it",
}


class InputModel(Settings):
    """One of `models`."""

    model: Model
    parameters: Parameters = None


class InputSlice(Settings):
    """One source of a slice: blocks `layer_range[0]` up to but without `layer_range[1]`."""

    model: Model
    layer_range: tuple[Annotated[int, Field(ge=0)], int]
    parameters: Parameters = None


class OutputSlice(Settings):
    """A run of the output's blocks."""

    sources: list[InputSlice] = Field(min_length=1)
    base_model: Model | None = None
    parameters: Parameters = None


class OutputModule(Settings):
    """One entry of `modules`."""

    slices: list[OutputSlice] | None = None
    models: list[InputModel] | None = None
    parameters: Parameters = None

    @model_validator(mode="after")
    def _one(self) -> OutputModule:
        if bool(self.slices) == bool(self.models):
            raise ValueError("expected either models: or slices: in a module")
        return self


class ModelToken(Settings):
    """The row of one token of one model."""

    kind: Literal["model_token"]
    model: Model
    token_id: int | None = None
    token: str | None = None

    @model_validator(mode="after")
    def _one(self) -> ModelToken:
        if (self.token_id is None) == (self.token is None):
            raise ValueError("expected token_id: or token:, one of them")
        return self


class Zero(Settings):
    """A row of zeros."""

    kind: Literal["zero"]


class TokenSource(Settings):
    """Where the row of one token comes from; `force` uses it for models that have the token too."""

    source: Annotated[ModelToken | Zero | Model | None, _FIRST] = None
    force: bool = False


class TokenizerSettings(Settings):
    """The output's tokenizer and how rows are found for it."""

    source: TokenizerChoice = "union"
    tokens: dict[str, TokenSource] | None = None
    pad_to_multiple_of: Annotated[int, Field(ge=1)] | None = None


class MergekitSettings(Settings):
    """One document of a mergekit file."""

    name: str | None = None
    modules: dict[str, OutputModule] | None = None
    slices: list[OutputSlice] | None = None
    models: list[InputModel] | None = None
    merge_method: str
    base_model: Model | None = None
    dtype: Dtype | None = None
    out_dtype: Dtype | None = None
    tokenizer_source: TokenizerChoice | None = None
    tokenizer: TokenizerSettings | None = None
    chat_template: str | None = None
    parameters: Parameters = None

    @model_validator(mode="after")
    def _check(self) -> MergekitSettings:
        given = [key for key in ("models", "slices", "modules") if getattr(self, key)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"expected one of models:, slices: and modules:, found {found}")
        if self.tokenizer_source and self.tokenizer:
            raise ValueError("tokenizer_source: and tokenizer: exclude each other; remove one")
        return self


@dataclass(frozen=True)
class Document:
    """A document with the places of its keys; `settings` of a later one may name earlier ones."""

    settings: MergekitSettings
    located: Located


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
    return ordered
