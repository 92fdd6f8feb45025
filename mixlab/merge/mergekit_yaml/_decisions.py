"""What becomes of each tensor of a mergekit document: mixed of which inputs, kept or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from mixlab.checkpoint import Place, TensorEntry, spell, tensor_place, torch_dtype
from mixlab.merge._method import MergeMethod
from mixlab.merge._mistakes import Mistakes
from mixlab.merge._pairing import is_buffer, is_position_table
from mixlab.merge._plan import Input, TensorPlan
from mixlab.merge._vocabulary import Remap
from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._models import Key, Opened
from mixlab.merge.mergekit_yaml._parameters import Resolver
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._slices import Slice
from mixlab.merge.mergekit_yaml._tables import Tables
from mixlab.merge.mergekit_yaml._tokenizer import BuiltTokenizer
from mixlab.spec import MixlabError

_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}
_FIRST_OF_GRADIENT = "mixed; outside the blocks a gradient counts with its first value"
_LACKING = "give models of one architecture"
_SHAPES = "give models of one architecture; rows of other vocabularies are matched by tokenizer:"
Picks = list[tuple[Opened, str]]


@dataclass
class Decisions:
    """Decides tensor by tensor.

    Args:
        document, method, parts: what is asked for.
        models: all opened models.
        target: the one whose names, config and side files the output carries.
        resolver: of settings.
        tokenizer: of the output, where one is made.
    """

    document: Document
    method: MergeMethod
    parts: Sequence[Slice]
    models: Mapping[Reference, Opened]
    target: Opened
    resolver: Resolver
    tokenizer: BuiltTokenizer | None
    mistakes: Mistakes = field(default_factory=Mistakes)
    warnings: list[str] = field(default_factory=list)
    _used: set[tuple[int, str]] = field(default_factory=set)
    _dropped: dict[tuple[int, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tables = Tables(self.document, self.models, self.tokenizer)

    @property
    def remaps(self) -> dict[int, dict[str, Remap]]:
        """Model -> vocabulary tables that are brought to the output's order of tokens."""
        return self.tables.remaps

    @cached_property
    def layers(self) -> int:
        """Blocks of the output."""
        return sum(self._length(part) for part in self.parts)

    @cached_property
    def head_name(self) -> str | None:
        """Under which name the output has a head of its own; None where it is tied."""
        owners = [one for one in self._sources(self.parts[-1]) if one.has_head()]
        if not owners:
            return None
        return self.target.head or owners[0].head

    def all(self) -> list[TensorPlan]:
        """Every tensor of the output, in the target's order, then what is dropped.

        Raises:
            MixlabError: every tensor that is missing somewhere or has other shapes.
        """
        for part in self.parts:
            self._check_part(part)
        plans = list(self._written())
        self.mistakes.stop("the models do not fit")
        graded = set(self.resolver.graded)
        if graded:
            self.warnings.append(
                f"outside the blocks a gradient over layers counts with its first value, as in "
                f"mergekit: {', '.join(sorted(graded)[:4])}"
            )
        for model in self.models.values():
            plans += self._left_over(model)
        return plans

    def _written(self) -> Iterator[TensorPlan]:
        blocks_done = False
        seen: set[Key] = set()
        keys = {name: key for key, name in self.target.outer.items()}
        for name in self.target.source.entries:
            if name in keys:
                seen.add(keys[name])
                yield from self._outer(keys[name], name)
            elif not blocks_done:
                blocks_done = True
                yield from self._blocks()
        for model in self.models.values():
            for key, name in model.outer.items():
                if key not in seen:
                    seen.add(key)
                    yield from self._outer(key, name)

    def _blocks(self) -> Iterator[TensorPlan]:
        layer = 0
        for part in self.parts:
            length = self._length(part)
            for offset in range(length):
                t = offset / (length - 1) if length > 1 else 1.0
                yield from self._block(part, offset, layer, t)
                layer += 1

    def _block(self, part: Slice, offset: int, layer: int, t: float) -> Iterator[TensorPlan]:
        sources = [(self.models[s.model], s.start + offset) for s in part.sources]
        tails = dict.fromkeys(tail for model, at in sources for tail in model.blocks.get(at, {}))
        for tail in tails:
            name = self.target.block_name(layer, tail)
            picks = [(m, m.blocks[at][tail]) for m, at in sources if tail in m.blocks.get(at, {})]
            if len(picks) < len(sources):
                if is_buffer(name):
                    self._drop(picks, "buffer, given by the config")
                    continue
                for model, at in sources:
                    if tail not in model.blocks.get(at, {}):
                        self.mistakes.add(
                            f"{model.reference} lacks {model.block_name(at, tail)}, which "
                            f"{picks[0][0].reference} has",
                            _LACKING,
                        )
                continue
            yield self._mix(part, name, picks, t, layer)

    def _outer(self, key: Key, name: str) -> Iterator[TensorPlan]:
        place = tensor_place(name)
        late = place.module in ("final_norm", "lm_head")
        part = self.parts[-1 if late else 0]
        sources = self._sources(part)
        if place.module == "lm_head" and name.endswith("weight"):
            yield from self._head(part, sources, name)
            return
        picks = [(model, model.outer[key]) for model in sources if key in model.outer]
        others = [model for model, _ in picks if model is not self.target]
        of_target = self.target.source.entries.get(name) if key in self.target.outer else None
        if len(picks) == len(sources) and not is_buffer(name):
            t = self.target.stack(name) if place.module == "other" and self._whole() else None
            yield self._mix(part, name, picks, t, None)
        elif of_target is not None and (is_buffer(name) or not others):
            if place.module != "other" and not is_buffer(name) and self.target in sources:
                self._lack(name, sources, picks)
                return
            because = (
                "buffer, given by the config"
                if is_buffer(name)
                else f"only in {self.target.reference}, whose config the output has"
            )
            yield self._keep(self.target, name, name, because)
        elif of_target is None and (is_buffer(name) or place.module == "other"):
            self._drop(picks, "not in the model whose config the output has")
            owners = sorted({str(model.reference) for model, _ in picks})
            if not is_buffer(name):
                self.warnings.append(f"{name} of {', '.join(owners)} has no place in the output")
        else:
            self._lack(name, sources, picks)

    def _head(self, part: Slice, sources: list[Opened], name: str) -> Iterator[TensorPlan]:
        if self.head_name is None:
            self._drop([(m, m.head) for m in sources if m.head], "tied to the embeddings")
            return
        if name != self.head_name:
            return
        picks: Picks = []
        for model in sources:
            own = model.head if model.has_head() else model.table
            if own is None:
                self.mistakes.add(f"{model.reference} has neither {name} nor embeddings", _LACKING)
                return
            picks.append((model, own))
            if not model.has_head():
                self.warnings.append(
                    f"{model.reference} ties lm_head to {own}; it is mixed as {name}"
                )
        yield self._mix(part, name, picks, None, None)

    def _mix(
        self, part: Slice, name: str, picks: Picks, t: float | None, layer: int | None
    ) -> TensorPlan:
        self._used.update((model.index, own) for model, own in picks)
        dtype = self._dtype([model.source.entries[own] for model, own in picks])
        inputs = self._inputs(part, name, picks)
        has_base = self.method.base != "none" and part.base is not None
        base = inputs.pop(part.base) if has_base and part.base in inputs else None
        shapes = {tuple(one.entry.shape) for one in (*inputs.values(), *([base] if base else []))}
        if len(shapes) > 1:
            shown = ", ".join(
                f"{list(i.entry.shape)} in {r}"
                for r, i in [*inputs.items(), (part.base, base)]
                if i
            )
            self.mistakes.add(f"{name}: {shown}", _SHAPES)
            shapes = {next(iter(shapes))}
        (shape,) = shapes
        if not inputs:
            assert base is not None
            return TensorPlan(name, "keep", "the base alone", dtype, shape, base)
        graded = len(self.resolver.graded)
        names = {model.reference: own for model, own in picks}
        given = self.resolver.resolve(part, name, {r: names[r] for r in inputs}, t)
        try:
            settings = self.method.settings(given, len(inputs))
        except MixlabError as error:
            raise self.document.located.error(("parameters",), f"{name}: {error}") from None
        if self.method.name == "passthrough" and settings["scale"] == (1.0,):
            ((reference, one),) = inputs.items()
            return TensorPlan(name, "keep", f"of {reference}", dtype, shape, one)
        mine = next((i for r, i in inputs.items() if r == self.target.reference), None)
        return TensorPlan(
            name,
            "mix",
            _FIRST_OF_GRADIENT if len(self.resolver.graded) > graded else "mixed",
            dtype,
            shape,
            target=mine or (base if part.base == self.target.reference else None),
            inputs=tuple(inputs.values()),
            base=base,
            method=self.method.name,
            settings=settings,
            layer=layer,
            layers=self.layers,
        )

    def _inputs(self, part: Slice, name: str, picks: Picks) -> dict[Reference, Input]:
        place = tensor_place(name)
        if self.tokenizer is not None and _is_table(name, place):
            return self.tables.inputs(part.base, name, picks)
        return {
            model.reference: Input(model.index, model.source.entries[own]) for model, own in picks
        }

    def _keep(self, model: Opened, own: str, name: str, because: str) -> TensorPlan:
        self._used.add((model.index, own))
        entry = model.source.entries[own]
        one = Input(model.index, entry)
        return TensorPlan(name, "keep", because, self._dtype([entry]), entry.shape, one)

    def _dtype(self, entries: Sequence[TensorEntry]) -> str:
        dtype = torch_dtype(entries[0].dtype)
        for entry in entries[1:]:
            dtype = torch.promote_types(dtype, torch_dtype(entry.dtype))
        chosen = self.document.settings.out_dtype or self.document.settings.dtype
        if chosen is not None and dtype.is_floating_point:
            dtype = _DTYPES[chosen]
        return spell(dtype)

    def _lack(self, name: str, sources: list[Opened], picks: Picks) -> None:
        having = [model for model, _ in picks] or [self.target]
        for model in sources:
            if model not in having:
                self.mistakes.add(
                    f"{model.reference} lacks {name}, which {having[0].reference} has", _LACKING
                )

    def _drop(self, picks: Sequence[tuple[Opened, str | None]], because: str) -> None:
        for model, own in picks:
            if own is not None:
                self._dropped[model.index, own] = because

    def _left_over(self, model: Opened) -> Iterator[TensorPlan]:
        for name, entry in model.source.entries.items():
            if (model.index, name) in self._used:
                continue
            block = tensor_place(name).layer is not None
            because = "no slice takes it" if block else "not a source of the slice it belongs to"
            because = self._dropped.get((model.index, name), because)
            origin = Input(model.index, entry)
            yield TensorPlan(name, "drop", because, entry.dtype, entry.shape, origin)

    def _sources(self, part: Slice) -> list[Opened]:
        return [self.models[source.model] for source in part.sources]

    def _whole(self) -> bool:
        """Whether the document gives whole models, and no slices."""
        return all(source.stop is None for part in self.parts for source in part.sources)

    def _length(self, part: Slice) -> int:
        source = part.sources[0]
        stop = self.models[source.model].layers if source.stop is None else source.stop
        return stop - source.start

    def _check_part(self, part: Slice) -> None:
        located, name = self.document.located, self.method.name
        lengths: dict[str, Any] = {}
        for source in part.sources:
            own = self.models[source.model].layers
            if source.stop is not None and source.stop > own:
                raise located.error(
                    (*source.path, "layer_range"),
                    f"{source.model} has {own} blocks, layer_range ends at {source.stop}",
                )
            lengths[str(source.model)] = (
                own if source.stop is None else source.stop
            ) - source.start
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{model} {length}" for model, length in lengths.items())
            raise located.error(part.path, f"the models have different numbers of blocks: {shown}")
        models = [source.model for source in part.sources]
        has_base = self.method.base != "none" and part.base is not None
        if has_base and part.base not in models:
            raise located.error(
                part.path, f"base_model {part.base} is not among the sources of this slice; add it"
            )
        if self.method.base == "required" and not has_base:
            raise located.error(("merge_method",), f"{name} measures from a base; give base_model:")
        count = len(models) - has_base
        # A slice of the base alone is the base, as in mergekit.
        alone = count == 0 and self.method.models == (1, None)
        if not alone:
            try:
                self.method.check(count, has_base)
            except MixlabError as error:
                raise located.error(part.path or ("models",), str(error)) from None


def _is_table(name: str, place: Place) -> bool:
    return place.module in ("embeddings", "lm_head") and not is_position_table(name)
