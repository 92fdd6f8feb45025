"""One tensor of the output from its inputs: settings, dtype, shape, and what it is mixed of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from mixlab.checkpoint import TensorEntry, spell, tensor_place, torch_dtype
from mixlab.merge._method import MergeMethod
from mixlab.merge._plan import Input, TensorPlan
from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._models import Opened
from mixlab.merge.mergekit_yaml._parameters import Resolver
from mixlab.merge.mergekit_yaml._planned import PlannedSource
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._slices import Slice
from mixlab.merge.mergekit_yaml._tables import Tables
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._pairing import is_position_table
from mixlab.merge.planning._same import same_bytes
from mixlab.spec import MixlabError

_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}
_FIRST_OF_GRADIENT = "first value of the gradient (outside the blocks)"
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_PACKED = "if these are packed (quantised) weights, give the unquantised model"
_SHAPES = "give models of one architecture; rows of other vocabularies are matched by tokenizer:"
# Models with the names of the tensors that are mixed.
Picks = list[tuple[Opened, str]]


@dataclass
class Mixer:
    """Plans single tensors.

    Args:
        document, method: what is asked for.
        target: the model whose tensors the output is compared with.
        resolver: of settings.
        tables: makes inputs of vocabulary tables, where the output has a tokenizer of its own.
        mistakes: shapes that differ are added.
    """

    document: Document
    method: MergeMethod
    target: Opened
    resolver: Resolver
    tables: Tables
    mistakes: Mistakes = field(default_factory=Mistakes)

    def keep(self, model: Opened, own: str, name: str, because: str) -> TensorPlan:
        """One tensor as it is, but for its dtype."""
        entry = model.source.entries[own]
        one = Input(model.index, entry)
        return TensorPlan(name, "keep", because, self._dtype([entry]), entry.shape, one)

    def mix(
        self, part: Slice, name: str, picks: Picks, t: float | None, layer: int | None, layers: int
    ) -> TensorPlan:
        """One tensor mixed of `picks`; of a single one that nothing changes, it is kept.

        Args:
            t: see `Resolver.resolve`.
            layer, layers: of the output.

        Raises:
            SpecError: a setting is missing or out of range.
        """
        if any(model.source.entries[own].dtype not in _FLOATS for model, own in picks):
            return self._constant(name, picks)
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
            layers=layers,
        )

    def _inputs(self, part: Slice, name: str, picks: Picks) -> dict[Reference, Input]:
        if self.tables.remapping and _is_table(name):
            return self.tables.inputs(part.base, name, picks)
        return {
            model.reference: Input(model.index, model.source.entries[own]) for model, own in picks
        }

    def _constant(self, name: str, picks: Picks) -> TensorPlan:
        """What cannot be averaged is kept where it is equal."""
        (first, own), *others = picks
        for model, other in others:
            if isinstance(model.source, PlannedSource) or isinstance(first.source, PlannedSource):
                continue
            if not same_bytes(first.source, own, model.source, other):
                self.mistakes.add(
                    f"{name}: {first.source.entries[own].dtype} values differ between "
                    f"{first.reference} and {model.reference} and cannot be averaged",
                    _PACKED,
                )
        return self.keep(first, own, name, "equal in all models" if others else "no weight")

    def _dtype(self, entries: Sequence[TensorEntry]) -> str:
        if entries[0].dtype not in _FLOATS:
            return entries[0].dtype
        dtype = torch_dtype(entries[0].dtype)
        for entry in entries[1:]:
            dtype = torch.promote_types(dtype, torch_dtype(entry.dtype))
        chosen = self.document.settings.out_dtype or self.document.settings.dtype
        if chosen is not None:
            dtype = _DTYPES[chosen]
        return spell(dtype)


def _is_table(name: str) -> bool:
    vocabulary = tensor_place(name).module in ("embeddings", "lm_head")
    return vocabulary and not is_position_table(name)
