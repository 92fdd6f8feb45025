"""From `models`, `slices` or `modules` to one list of slices of the output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._settings import (
    InputModel,
    MergekitSettings,
    ModelToken,
    OutputModule,
    OutputSlice,
)
from mixlab.spec.located import Path_


@dataclass(frozen=True)
class Scope:
    """One `parameters:` mapping and where it stands in the document."""

    path: Path_
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """Blocks `start` up to but without `stop` of one model (None: to its end), as one input."""

    model: Reference
    start: int
    stop: int | None
    scope: Scope
    path: Path_


@dataclass(frozen=True)
class Slice:
    """A run of blocks of the output, mixed from equally long runs of its sources."""

    sources: tuple[Source, ...]
    base: Reference | None
    scopes: tuple[Scope, ...]
    path: Path_

    def scopes_of(self, model: Reference | None) -> Iterable[Scope]:
        """Mappings that may hold a setting, the first that has it counts: source, slice, module,
        document (the order of mergekit)."""
        if model is not None:
            yield from (source.scope for source in self.sources if source.model == model)
        yield from self.scopes


def slices_of(document: Document) -> tuple[Slice, ...]:
    """The output's slices in order; `models` make a single one of all blocks.

    A `base_model` that is not among the models is added after them, as mergekit does; it is not
    added to slices, which name their sources themselves.

    Raises:
        SpecError: there are several modules, a layer range is empty, the sources of a slice are of
            different lengths or not distinct, or its base is not among them.
    """
    settings = document.settings
    outer = Scope(("parameters",), settings.parameters or {})
    path: Path_ = ()
    models, slices = settings.models, settings.slices
    scopes: tuple[Scope, ...] = (outer,)
    if settings.modules:
        if len(settings.modules) > 1:
            raise document.located.error(
                ("modules",),
                f"modules: of several parts ({', '.join(settings.modules)}) are not supported; "
                "give models:, which mixes every tensor that the models share",
            )
        ((name, module),) = settings.modules.items()
        path = ("modules", name)
        scopes = (Scope((*path, "parameters"), module.parameters or {}), outer)
        models, slices = module.models, module.slices
    found = (
        [_of_models(models, settings.base_model, scopes, (*path, "models"))]
        if models
        else [
            _of_slice(part, settings.base_model, scopes, (*path, "slices", index))
            for index, part in enumerate(slices or ())
        ]
    )
    for part in found:
        _check(document, part)
    return tuple(found)


def references(settings: MergekitSettings) -> list[Reference]:
    """Every model that a document names, in order, once."""
    found: list[Reference] = [settings.base_model] if settings.base_model else []
    places: list[MergekitSettings | OutputModule] = [settings, *(settings.modules or {}).values()]
    for place in places:
        found += [model.model for model in place.models or ()]
        for part in place.slices or ():
            found += [part.base_model] if part.base_model else []
            found += [source.model for source in part.sources]
    tokenizer = settings.tokenizer
    choices: list[Any] = [settings.tokenizer_source, tokenizer.source if tokenizer else None]
    for token in ((tokenizer.tokens or {}) if tokenizer else {}).values():
        choices.append(token.source.model if isinstance(token.source, ModelToken) else token.source)
    found += [choice for choice in choices if isinstance(choice, Reference)]
    return list(dict.fromkeys(found))


def _of_models(
    models: list[InputModel], base: Reference | None, scopes: tuple[Scope, ...], path: Path_
) -> Slice:
    sources = [
        Source(
            model.model,
            0,
            None,
            Scope((*path, index, "parameters"), model.parameters or {}),
            (*path, index),
        )
        for index, model in enumerate(models)
    ]
    if base is not None and all(source.model != base for source in sources):
        sources.append(Source(base, 0, None, Scope(("base_model",), {}), ("base_model",)))
    return Slice(tuple(sources), base, scopes, path)


def _of_slice(
    part: OutputSlice, base: Reference | None, scopes: tuple[Scope, ...], path: Path_
) -> Slice:
    sources = tuple(
        Source(
            source.model,
            *source.layer_range,
            Scope((*path, "sources", index, "parameters"), source.parameters or {}),
            (*path, "sources", index),
        )
        for index, source in enumerate(part.sources)
    )
    own = Scope((*path, "parameters"), part.parameters or {})
    return Slice(sources, part.base_model or base, (own, *scopes), path)


def _check(document: Document, part: Slice) -> None:
    lengths = {}
    for source in part.sources:
        if source.stop is not None and source.stop <= source.start:
            raise document.located.error(
                (*source.path, "layer_range"),
                f"layer_range [{source.start}, {source.stop}] is empty; the second number is the "
                "first block that is left out",
            )
        lengths[source.model] = None if source.stop is None else source.stop - source.start
    if len(lengths) < len(part.sources):
        raise document.located.error(
            part.path, "a model stands twice in one slice; give each model once"
        )
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{model}: {length}" for model, length in lengths.items())
        raise document.located.error(
            part.path, f"the sources of a slice have different numbers of blocks ({shown})"
        )
