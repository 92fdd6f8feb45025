"""Greedy decoding in batches: one loop over a causal LM, finished rows dropped."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mixlab.score._batches import MOST_ROWS, like_lengths, token_budget
from mixlab.score._cache import Answer
from mixlab.score._room import roomy_cache

# Selecting rows copies the cache, so it waits until a quarter of the rows have ended.
_DROP_SHARE = 0.25

Embed = Callable[[torch.Tensor, Sequence[Any]], torch.Tensor]
"""Ids int64 [rows, tokens] and each row's image (or None) to embeddings [rows, tokens, width]."""


@dataclass(frozen=True)
class Request:
    """Ids int32 [tokens] to go on from, at most `limit` new ones; `image` stands in them."""

    ids: np.ndarray
    limit: int
    image: Any = None


@torch.inference_mode()
def generate(
    lm: Any,
    requests: Sequence[Request],
    *,
    stop_ids: Sequence[int],
    pad_id: int,
    embed: Embed | None = None,
    most_rows: int | None = None,
    done: Callable[[list[int], list[Answer]], None] | None = None,
) -> list[Answer]:
    """Greedy continuations, in the order of `requests`; the stop token is left out.

    Rows are padded on the left and their positions counted from their first real token, so that
    a row's answer does not depend on its batch (but for ties within rounding). `embed` makes
    prompts with images; without it the model embeds ids itself. `done` is called after each
    batch with the indices and answers it gave.
    """
    device = lm.device
    budget = token_budget(lm.config, lm.dtype.itemsize, str(device))
    rows = most_rows or (MOST_ROWS if device.type == "cpu" else 4 * MOST_ROWS)
    lengths = [len(request.ids) for request in requests]
    limits = [request.limit for request in requests]
    answers: list[Answer | None] = [None] * len(requests)
    stops = torch.tensor(sorted(stop_ids), dtype=torch.long, device=device)
    for batch in like_lengths(lengths, most_rows=rows, most_tokens=budget, limits=limits):
        found = _decode(lm, [requests[index] for index in batch], stops, pad_id, embed)
        for index, answer in zip(batch, found, strict=True):
            answers[index] = answer
        if done is not None:
            done(batch, found)
    return [answer for answer in answers if answer is not None]


def pad_left(rows: Sequence[np.ndarray], pad_id: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Ids int64 [rows, longest] and mask int64 of that shape, or None where nothing is padded."""
    longest = max(len(row) for row in rows)
    ids = np.full((len(rows), longest), pad_id, np.int64)
    mask = np.zeros((len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        ids[number, longest - len(row) :] = row
        mask[number, longest - len(row) :] = 1
    full = bool(mask.all())
    return torch.from_numpy(ids), None if full else torch.from_numpy(mask)


def cache_word(lm: Any) -> str:
    """The name of forward's cache argument, which transformers 5 changed on the way."""
    return "cache" if "cache" in inspect.signature(lm.forward).parameters else "past_key_values"


def _decode(
    lm: Any, batch: Sequence[Request], stops: torch.Tensor, pad_id: int, embed: Embed | None
) -> list[Answer]:
    device = lm.device
    ids, mask = pad_left([request.ids for request in batch], pad_id)
    ids = ids.to(device)
    mask = None if mask is None else mask.to(device)
    start = torch.tensor([len(request.ids) for request in batch], device=device)
    left = torch.tensor([request.limit for request in batch], device=device)
    most = max(request.limit for request in batch)
    given = torch.full((len(batch), most), -1, dtype=torch.long, device=device)
    ended = torch.zeros(len(batch), dtype=torch.bool, device=device)
    cache = roomy_cache(lm.config)
    word = cache_word(lm)
    inputs: dict[str, Any] = {"input_ids": ids}
    if embed is not None and any(request.image is not None for request in batch):
        inputs = {"inputs_embeds": embed(ids, [request.image for request in batch])}
    positions = None if mask is None else (mask.cumsum(-1) - 1).clamp(min=0)
    alive = torch.arange(len(batch), device=device)
    going = torch.ones(len(batch), dtype=torch.bool, device=device)
    for step in range(most):
        logits = lm(
            **inputs,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{word: cache},
        ).logits
        token = logits[:, -1].argmax(-1)
        stop = torch.isin(token, stops) & going
        ended[alive[stop]] = True
        going = going & ~stop
        given[alive[going], step] = token[going]
        going = going & (left[alive] > step + 1)
        count = int(going.sum())
        if count == 0:
            break
        if count <= len(alive) * (1 - _DROP_SHARE):
            kept = going.nonzero().flatten()
            cache.batch_select_indices(kept)
            alive, token = alive[kept], token[kept]
            mask = None if mask is None else mask[kept]
            going = torch.ones(len(alive), dtype=torch.bool, device=device)
        inputs = {"input_ids": token[:, None]}
        positions = (start[alive] + step)[:, None]
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)
    rows = given.cpu().numpy()
    over = ended.cpu().numpy()
    return [
        Answer(ids=tuple(int(token) for token in row if token >= 0), ended=bool(stopped))
        for row, stopped in zip(rows, over, strict=True)
    ]
