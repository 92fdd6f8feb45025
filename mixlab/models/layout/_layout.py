"""A folder's tensors by what they are to its language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mixlab.checkpoint import TensorEntry
from mixlab.models.layout._group import Group


@dataclass(frozen=True)
class Layout:
    """How a folder names and arranges its language model.

    Args:
        kind: whether there are parts beside the language model.
        groups: of the language model's tensors.
        others: stored names of all else, in the file's order.
        entries: every stored tensor's header.
        config: config.json, as plain data.
        model_type: as config.json says.
        tied: whether the output head is the embedding.
        how: how the tensors were placed, for a sentence that begins with the model.
        placed: whether transformers' rules placed them; else names and shapes did, and backbone
            names say only what is the same within the model.
    """

    kind: str
    groups: tuple[Group, ...]
    others: tuple[str, ...]
    entries: Mapping[str, TensorEntry]
    config: Mapping[str, Any]
    model_type: str
    tied: bool
    how: str
    placed: bool = True

    @cached_property
    def group_of(self) -> dict[str, Group]:
        """Stored name -> group, in the file's order."""
        found = {name: group for group in self.groups for name in group.stored}
        return {name: found[name] for name in self.entries if name in found}

    @cached_property
    def by_name(self) -> dict[str, Group]:
        """Backbone name -> group."""
        return {name: group for group in self.groups for name in group.names}

    @property
    def backbone(self) -> tuple[str, ...]:
        """Stored names of the language model's tensors, in the file's order."""
        return tuple(self.group_of)
