"""Which stored tensors are a language model's, where all that differs between models is names.

The layouts of `mixlab.models.layout` are used where that room is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mixlab.checkpoint import Checkpoint, TensorEntry, TensorSource, language_prefix, tensor_place
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class PlainLayout:
    """Stored names and backbone names, one to one.

    Args:
        kind: "lm" or "vlm".
        names: stored name -> backbone name, of the language model alone.
        model_type: of the config.
        how: in a phrase, where this comes from.
    """

    kind: str
    names: Mapping[str, str]
    model_type: str
    how: str = "placed by names"

    @property
    def backbone(self) -> frozenset[str]:
        """Stored names of the language model."""
        return frozenset(self.names)


@dataclass(frozen=True)
class Renamed:
    """A TensorSource over `base` under other names."""

    base: TensorSource
    own: Mapping[str, str]
    entries: Mapping[str, TensorEntry] = field(init=False)

    def __post_init__(self) -> None:
        entries = {n: replace(self.base.entries[own], name=n) for n, own in self.own.items()}
        object.__setattr__(self, "entries", entries)

    @property
    def key(self) -> str:
        """The base's."""
        return self.base.key

    def streams(self, name: str) -> bool:
        """As the base."""
        return self.base.streams(self.own[name])

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        """Fill `buffer` with the tensor's bytes from byte `start` on."""
        self.base.read_into(self.own[name], buffer, start)

    def read(self, name: str) -> torch.Tensor:
        """The whole tensor."""
        return self.base.read(self.own[name])


def open_layout(checkpoint: Checkpoint) -> Any:
    """The layout of a folder."""
    room = _room()
    if room is not None:
        return room.open_layout(checkpoint)
    config = checkpoint.config()
    prefix = language_prefix(checkpoint.entries)
    if prefix is None:
        raise MixlabError(f"{checkpoint.folder}: no blocks of a language model among its tensors")
    names = {}
    for name in checkpoint.entries:
        place = tensor_place(name)
        if place.layer is not None and place.prefix != prefix:
            continue
        if place.module == "lm_head":
            names[name] = f"lm_head.{name.rpartition('.')[2]}"
        elif place.layer is not None or place.module != "other":
            names[name] = "model." + name.removeprefix(prefix)
    kind = "vlm" if len(names) < len(checkpoint.entries) or "vision_config" in config else "lm"
    return PlainLayout(kind, names, str(config.get("model_type")))


def lm_layout(config: Any, cls: Any) -> Any:
    """The layout that a causal LM is saved in."""
    room = _room()
    if room is not None:
        return room.lm_layout(config, cls)
    import torch

    with torch.device("meta"):
        names = dict.fromkeys(cls(config).state_dict())
    if config.tie_word_embeddings:
        names.pop("lm_head.weight", None)
    return PlainLayout("lm", {name: name for name in names}, config.model_type)


def present(source: Checkpoint, layout: Any, like: Any) -> TensorSource:
    """The language model of `source` under the stored names of `like`."""
    room = _room()
    if room is not None:
        presented: TensorSource = room.present(source, layout, like)
        return presented
    stored = {backbone: name for name, backbone in layout.names.items()}
    return Renamed(source, {n: stored[b] for n, b in like.names.items() if b in stored})


def _room() -> Any:
    try:
        return importlib.import_module("mixlab.models.layout")
    except ModuleNotFoundError:
        return None
