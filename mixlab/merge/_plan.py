"""What a merge will do, tensor by tensor, decided from headers before a byte is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mixlab.checkpoint import TensorEntry, TensorSource

Action = Literal["mix", "keep", "drop"]


@dataclass(frozen=True)
class Input:
    """One tensor of one of the plan's models."""

    model: int
    entry: TensorEntry


@dataclass(frozen=True, eq=False)
class PickedRows:
    """Which rows of a vocabulary table are mixed, and where each model has them.

    Args:
        rows: int64, rows of the output and of the target, ascending; all others are kept.
        of: model -> int64 of the same length, the rows of its table that go there.
    """

    rows: np.ndarray
    of: Mapping[int, np.ndarray]


@dataclass(frozen=True)
class VocabularyRows:
    """What becomes of the rows of vocabulary tables that are aligned by token.

    Args:
        tables: names of the output's tables that this is of.
        merged: rows whose token all models have.
        lacking: rows kept because a model lacks their token.
        padded: rows kept because no token stands for them.
        dropped: rows of each further model, by its name, that go nowhere.
        assumed: one sentence each, for what the tokenizers did not say.
    """

    tables: tuple[str, ...]
    merged: int
    lacking: int
    padded: int
    dropped: Mapping[str, int]
    assumed: tuple[str, ...] = ()

    @property
    def kept(self) -> int:
        """Rows of the target that stay bit for bit."""
        return self.lacking + self.padded

    def sentence(self) -> str:
        """For people."""
        told = f"vocabulary of {', '.join(self.tables)}: {self.merged:,} rows merged by token"
        told += f", {self.kept:,} kept"
        if self.kept:
            told += f" ({self.lacking:,} whose token a model lacks, {self.padded:,} padded)"
        for name, count in self.dropped.items():
            told += f", {count:,} of {name} dropped"
        return told


@dataclass(frozen=True)
class TensorPlan:
    """One tensor of the output (or one dropped tensor of an input), and why.

    Args:
        name: in the output.
        action: mix by `method`, keep the `target`'s bytes, or drop.
        because: one phrase for the table ("scope", "only in the target", "mixed").
        dtype: of the output, as safetensors spells it.
        shape: of the output.
        target: what is copied where the tensor is kept, and whose rows from `rows` on are kept.
        inputs, base: what is mixed, in the order of the method's per-model settings.
        extras: one further tensor for each input where the method takes one (its `extra`); their
            `model` counts among the plan's sources like any other.
        method, settings: a registered method's name, and settings resolved by
            `MergeMethod.settings` for this tensor.
        rows: of the first axis, how many are mixed (None: all). Of a kept tensor: how many of the
            `target`'s first rows are copied.
        rest: of a kept tensor, what the rows from `rows` on are copied from.
        picked: which rows are mixed where they are not the first ones in all models; `rows` is
            then None.
        layer, layers: block index, if the tensor stands in a block, and their number.
    """

    name: str
    action: Action
    because: str
    dtype: str
    shape: tuple[int, ...]
    target: Input | None = None
    inputs: tuple[Input, ...] = ()
    base: Input | None = None
    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    layer: int | None = None
    layers: int = 0
    extras: tuple[Input, ...] = ()
    picked: PickedRows | None = field(default=None, compare=False)
    rest: Input | None = None


@dataclass(frozen=True)
class MergePlan:
    """All that `execute` needs.

    Args:
        sources: one for every model of the recipe, in its order.
        folders: the folder of each source (for digests, side files and the card).
        target: index of the model whose config, tokenizer and side files the output carries.
        tensors: every tensor of the output, in the target's order, then the dropped ones.
        seed: of the random methods.
        config: the output's config.json, complete.
        recipe: plain data for the card, exactly what was asked for.
        warnings: for the user, one sentence each.
        side_files: output name -> file to copy (tokenizer, processor, template, generation
            config); `config.json`, weights and the card are not among them.
        facts: for the user, what is no warning, one sentence each.
        vocabulary: what becomes of rows that are aligned by token.
        title: of the card, where the output is no merge.
    """

    sources: tuple[TensorSource, ...]
    folders: tuple[Path, ...]
    target: int
    tensors: tuple[TensorPlan, ...]
    seed: int
    config: Mapping[str, Any]
    recipe: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    side_files: Mapping[str, Path] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    vocabulary: tuple[VocabularyRows, ...] = ()
    title: str = ""

    @property
    def written(self) -> tuple[TensorPlan, ...]:
        """The tensors of the output."""
        return tuple(tensor for tensor in self.tensors if tensor.action != "drop")

    def counts(self) -> Counter[Action]:
        """How many tensors are mixed, kept and dropped."""
        return Counter(tensor.action for tensor in self.tensors)
