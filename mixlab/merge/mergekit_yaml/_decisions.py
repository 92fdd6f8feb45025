"""What becomes of each tensor of a mergekit document: mixed of which inputs, kept or dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mixlab.checkpoint import tensor_place
from mixlab.merge._method import MergeMethod
from mixlab.merge._plan import Input, TensorPlan
from mixlab.merge.mergekit_yaml._checks import check_part, mixed_kinds, probe
from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._mixer import Mixer, Picks
from mixlab.merge.mergekit_yaml._models import Key, Opened, says_tied
from mixlab.merge.mergekit_yaml._parameters import Resolver
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._slices import Slice
from mixlab.merge.mergekit_yaml._tables import Tables
from mixlab.merge.mergekit_yaml._tokenizer import BuiltTokenizer
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._pairing import is_buffer, part_of
from mixlab.merge.planning._remapped import Remap

_LACKING = "give models of one architecture"


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
    _lost: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.tables = Tables(self.document, self.tokenizer)
        self.mixer = Mixer(
            self.document, self.method, self.target, self.resolver, self.tables, self.mistakes
        )

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

    def blocks_of_config(self) -> int | list[int] | None:
        """For `output_config`: which of the target's blocks each block of the output follows.

        That is the first source's, unless the target is a source itself. None where all blocks are
        in their place; a number where some lie beyond the target's.
        """
        blocks: list[int] = []
        for part in self.parts:
            own = [s for s in part.sources if s.model == self.target.reference]
            start = (own or part.sources)[0].start
            blocks += range(start, start + self._length(part))
        if blocks == list(range(self.target.layers)):
            return None
        return blocks if max(blocks, default=0) < self.target.layers else len(blocks)

    def all(self) -> list[TensorPlan]:
        """Every tensor of the output, in the target's order, then what is dropped.

        Raises:
            MixlabError: every tensor that is missing somewhere or has other shapes.
        """
        for part in self.parts:
            check_part(self.document, self.method, part, self.models)
        plans = list(self._written())
        self.mistakes.stop("the models do not fit")
        probe(self.document, self.method, plans)
        self.warnings += mixed_kinds(self.parts, self.models)
        graded = set(self.resolver.graded)
        if graded:
            self.warnings.append(
                f"outside the blocks a gradient over layers counts with its first value, as in "
                f"mergekit: {', '.join(sorted(graded)[:4])}"
            )
        for (model, part_name), count in self._lost.items():
            self.warnings.append(
                f"{count} tensors of {model} under {part_name} have no place in the output"
            )
        for opened in self.models.values():
            plans += self._left_over(opened)
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
            if is_buffer(name):
                self._used.update((model.index, own) for model, own in picks)
                yield self._kept(*picks[0], name, "buffer, given by the config")
                continue
            yield self._mixed(part, name, picks, t, layer)

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
            yield self._mixed(part, name, picks, t, None)
        elif of_target is not None and (is_buffer(name) or not others):
            if place.module != "other" and not is_buffer(name) and self.target in sources:
                self._lack(name, sources, picks)
                return
            because = (
                "buffer, given by the config"
                if is_buffer(name)
                else f"only in {self.target.reference}, whose config the output has"
            )
            yield self._kept(self.target, name, name, because)
        elif of_target is None and (is_buffer(name) or place.module == "other"):
            self._drop(picks, "not in the model whose config the output has")
            if not is_buffer(name):
                self._lost.update((str(model.reference), part_of(own)) for model, own in picks)
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
            if own is None or (model.head is None and says_tied(model.config) is False):
                self.mistakes.add(
                    f"{model.reference} lacks {name}, and its config does not tie it to the "
                    "embeddings",
                    _LACKING,
                )
                return
            picks.append((model, own))
            if not model.has_head():
                self.warnings.append(
                    f"{model.reference} ties lm_head to {own}; it is mixed as {name}"
                )
        yield self._mixed(part, name, picks, None, None)

    def _mixed(
        self, part: Slice, name: str, picks: Picks, t: float | None, layer: int | None
    ) -> TensorPlan:
        self._used.update((model.index, own) for model, own in picks)
        return self.mixer.mix(part, name, picks, t, layer, self.layers)

    def _kept(self, model: Opened, own: str, name: str, because: str) -> TensorPlan:
        self._used.add((model.index, own))
        return self.mixer.keep(model, own, name, because)

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
