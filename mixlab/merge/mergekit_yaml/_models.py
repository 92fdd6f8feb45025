"""The models of a document, opened: every tensor by its place, whatever prefix it stands under."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mixlab.checkpoint import (
    Checkpoint,
    LoraSource,
    TensorSource,
    check_plain,
    count_layers,
    language_prefix,
    tensor_place,
)
from mixlab.merge._plan import MergePlan
from mixlab.merge.mergekit_yaml._planned import PlannedSource
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.planning._folders import model_folder
from mixlab.merge.planning._pairing import head_and_table
from mixlab.merge.planning._same import same_bytes

# Outside blocks: ("", tail) for the language model, whose prefix does not matter; else the name.
Key = tuple[str, str]
# Blocks of another tower; `mlp.0` of a projector is none.
_STACK = re.compile(r"^(.*?\b(?:layers|layer|blocks|block|h)\.)(\d+)\.")


class Closable(Protocol):
    """What is closed once a plan was carried out."""

    def close(self) -> None:
        """Close the files."""
        ...


@dataclass(eq=False)
class Opened:
    """One opened model.

    Args:
        index: among the plan's sources.
        source: of its tensors, adapter included.
        folder: of the model; that of an output to come does not exist yet.
        config: its config.json.
        tied: whether its head is its embeddings: it has none, or a stored copy.
        head, table: names of lm_head and token embeddings, where there is one of each.
        blocks: block -> tail of the name -> name.
        outer: other tensors by Key.
        layers: number of blocks.
    """

    index: int
    reference: Reference
    source: TensorSource
    folder: Path
    config: dict[str, Any]
    closables: tuple[Closable, ...] = ()
    tied: bool = field(init=False)
    head: str | None = field(init=False)
    table: str | None = field(init=False)
    prefix: str | None = field(init=False)
    blocks: dict[int, dict[str, str]] = field(init=False, default_factory=dict)
    outer: dict[Key, str] = field(init=False, default_factory=dict)
    layers: int = field(init=False)
    _container: str = ""
    _last: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        entries = self.source.entries
        for match in filter(None, map(_STACK.match, entries)):
            self._last[match[1]] = max(self._last.get(match[1], 0), int(match[2]))
        self.prefix, self.layers = language_prefix(entries), count_layers(entries)
        self.head, self.table = head_and_table(entries)
        says = says_tied(self.config)
        self.tied = self.table is not None and (
            self.head is None
            or (says is True and same_bytes(self.source, self.head, self.source, self.table))
        )
        tails = Counter(self._tail(name) for name in entries)
        for name in entries:
            place = tensor_place(name)
            if place.layer is not None and place.prefix == self.prefix:
                self._container, _, tail = name[len(place.prefix) :].split(".", 2)
                self.blocks.setdefault(place.layer, {})[tail] = name
            else:
                loose = self._tail(name)
                alone = loose is not None and tails[loose] == 1
                self.outer[("", str(loose)) if alone else ("name", name)] = name

    def block_name(self, layer: int, tail: str) -> str:
        """Name of a tensor of a block, also of one beyond the model's own."""
        return f"{self.prefix}{self._container}.{layer}.{tail}"

    def has_head(self) -> bool:
        """Whether its head is a weight of its own."""
        return self.head is not None and not self.tied

    def stack(self, name: str) -> float | None:
        """From 0 to 1, where in its own stack of blocks a tensor outside the language model's
        blocks stands; None if in none."""
        match = _STACK.match(name)
        if match is None:
            return None
        last = self._last.get(match[1], 0)
        return min(int(match[2]) / last, 1.0) if last else 1.0

    def _tail(self, name: str) -> str | None:
        place = tensor_place(name)
        if place.layer is not None or place.module == "other":
            return None
        return name[len(place.prefix) :]


def says_tied(config: Mapping[str, Any]) -> bool | None:
    """`tie_word_embeddings` of a config or its text config; None where neither says."""
    text = config.get("text_config")
    for part in (config, text if isinstance(text, dict) else {}):
        if isinstance(part.get("tie_word_embeddings"), bool):
            return bool(part["tie_word_embeddings"])
    return None


def open_model(
    reference: Reference, index: int, key: str, stages: Mapping[str, Path | MergePlan]
) -> Opened:
    """Open one model, its adapter on top.

    Args:
        key: on which random bits depend.
        stages: names of earlier documents -> their output, or its plan.

    Raises:
        MixlabError: a folder is missing or does not hold.
    """
    stage = stages.get(reference.path)
    source: TensorSource
    closables: tuple[Closable, ...] = ()
    if isinstance(stage, MergePlan):
        source, folder, config = PlannedSource(key, stage), Path(reference.path), dict(stage.config)
    else:
        folder = stage if stage is not None else model_folder(reference.model)
        checkpoint = Checkpoint.open(folder, key=key)
        source, closables = checkpoint, (checkpoint,)
        try:
            config = checkpoint.config()
            check_plain(folder, config, checkpoint.entries)
        except BaseException:
            checkpoint.close()
            raise
    if reference.adapter is not None:
        try:
            lora = LoraSource(source, model_folder(reference.adapter_place))
        except BaseException:
            for one in closables:
                one.close()
            raise
        source, closables = lora, (lora, *closables)
    return Opened(index, reference, source, folder, config, closables)
