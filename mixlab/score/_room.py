"""A key-value cache that grows in place, as decoding needs it."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer


class RoomyLayer(DynamicLayer):
    """DynamicLayer with spare room: a step writes its keys instead of copying all earlier ones.

    Tensors are [rows, heads, tokens, head size]; `keys` and `values` are views of the used part.
    transformers' own layer concatenates, which at small models costs as much as the forward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self._room: tuple[torch.Tensor, torch.Tensor] | None = None
        self._used = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append [rows, heads, new, size]; returns all keys and values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        total = self._used + key_states.shape[-2]
        if self._room is None or self._room[0].shape[-2] < total:
            self._room = (
                self._grown(key_states, self.keys, total),
                self._grown(value_states, self.values, total),
            )
        for room, new in zip(self._room, (key_states, value_states), strict=True):
            room[:, :, self._used : total] = new
        self._used = total
        self._show()
        return self._room[0][:, :, :total], self._room[1][:, :, :total]

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep (or repeat) the rows that `indices` names, int64 [new rows]."""
        if self._room is not None:
            self._room = (self._room[0][indices], self._room[1][indices])
            self._show()

    def _grown(self, new: torch.Tensor, old: torch.Tensor | None, total: int) -> torch.Tensor:
        rows, heads, _, size = new.shape
        room = new.new_empty(rows, heads, total + max(16, total // 4), size)
        if self._used and old is not None:
            room[:, :, : self._used] = old
        return room

    def _show(self) -> None:
        if self._room is not None:
            self.keys = self._room[0][:, :, : self._used]
            self.values = self._room[1][:, :, : self._used]


def roomy_cache(config: Any) -> DynamicCache:
    """A cache for one model; only plain layers grow in place, sliding ones stay as they are."""
    cache = DynamicCache(config=config)
    cache.layers = [
        RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    return cache
