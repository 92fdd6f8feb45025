"""What decoding asks of a model: a prompt pass, one-token steps, and dropping rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from mixlab.score._room import roomy_cache

Embed = Callable[[torch.Tensor, Sequence[Any]], torch.Tensor]
"""Ids int64 [rows, tokens] and each row's image (or None) to embeddings [rows, tokens, width]."""


class Engine(Protocol):
    """One batch on its way; logits are [rows, vocabulary], of each row's next token."""

    def start(
        self, rows: Sequence[np.ndarray], images: Sequence[Any], embed: Embed | None
    ) -> torch.Tensor:
        """Read the prompts, ids int32 [tokens] each."""
        ...

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read one more token of every row, int64 [rows]."""
        ...

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows only, int64 [new rows]."""
        ...


class PaddedLeft:
    """Any causal LM of transformers: prompts end together, and a mask hides the padding."""

    def __init__(self, lm: Any, pad_id: int) -> None:
        self._lm = lm
        self._pad = pad_id
        self._cache = roomy_cache(lm.config)
        self._word = cache_word(lm)
        self._mask: torch.Tensor | None = None
        self._next = torch.empty(0)

    def start(
        self, rows: Sequence[np.ndarray], images: Sequence[Any], embed: Embed | None
    ) -> torch.Tensor:
        ids, mask = pad(rows, self._pad, left=True, device=self._lm.device)
        self._mask = mask
        self._next = torch.tensor([len(row) for row in rows], device=ids.device)
        positions = None if mask is None else (mask.cumsum(-1) - 1).clamp(min=0)
        return self._forward(first_inputs(ids, images, embed), positions)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        if self._mask is not None:
            new = self._mask.new_ones(len(tokens), 1)
            self._mask = torch.cat([self._mask, new], dim=1)
        positions = self._next[:, None]
        self._next = self._next + 1
        return self._forward({"input_ids": tokens[:, None]}, positions)

    def keep(self, rows: torch.Tensor) -> None:
        self._cache.batch_select_indices(rows)
        self._next = self._next[rows]
        self._mask = None if self._mask is None else self._mask[rows]

    def _forward(self, inputs: dict[str, Any], positions: torch.Tensor | None) -> torch.Tensor:
        logits: torch.Tensor = self._lm(
            **inputs,
            attention_mask=self._mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._word: self._cache},
        ).logits
        return logits[:, -1]


def engine_for(lm: Any, pad_id: int) -> Engine:
    """The fastest engine that serves `lm`."""
    from mixlab.score._llama import PaddedRight, serves

    return PaddedRight(lm, pad_id) if serves(lm) else PaddedLeft(lm, pad_id)


def pad(
    rows: Sequence[np.ndarray], pad_id: int, *, left: bool, device: Any
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Ids int64 [rows, longest] and mask int64 of that shape, or None where nothing is padded."""
    longest = max(len(row) for row in rows)
    ids = np.full((len(rows), longest), pad_id, np.int64)
    mask = np.zeros((len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), None) if left else slice(0, len(row))
        ids[number, place] = row
        mask[number, place] = 1
    full = bool(mask.all())
    return torch.from_numpy(ids).to(device), None if full else torch.from_numpy(mask).to(device)


def first_inputs(
    ids: torch.Tensor, images: Sequence[Any], embed: Embed | None
) -> dict[str, torch.Tensor]:
    """`input_ids`, or `inputs_embeds` where a row has an image."""
    if embed is not None and any(image is not None for image in images):
        return {"inputs_embeds": embed(ids, images)}
    return {"input_ids": ids}


def cache_word(lm: Any) -> str:
    """The name of forward's cache argument, which transformers 5 changed on the way."""
    return "cache" if "cache" in inspect.signature(lm.forward).parameters else "past_key_values"
