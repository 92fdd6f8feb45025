"""Greedy decoding in batches: one loop over an engine, finished rows dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mixlab.score._batches import MOST_ROWS, like_lengths, token_budget
from mixlab.score._cache import Answer
from mixlab.score._engines import Embed, Engine, engine_for

# Selecting rows copies the cache, so it waits until a quarter of the rows have ended.
_DROP_SHARE = 0.25


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
    engine: Callable[[Any, int], Engine] = engine_for,
) -> list[Answer]:
    """Greedy continuations, in the order of `requests`; the stop token is left out.

    A row's positions count from its own first token and padding is hidden, so that its answer
    does not depend on its batch (but for ties within rounding). `embed` makes prompts with
    images; without it the model embeds ids itself. `done` is called after each batch with the
    indices and answers it gave. `engine` makes what runs a batch from the model and `pad_id`.
    """
    budget = token_budget(lm.config, lm.dtype.itemsize, str(lm.device))
    rows = most_rows or (MOST_ROWS if lm.device.type == "cpu" else 4 * MOST_ROWS)
    lengths = [len(request.ids) for request in requests]
    limits = [request.limit for request in requests]
    answers: list[Answer | None] = [None] * len(requests)
    stops = torch.tensor(sorted(stop_ids), dtype=torch.long, device=lm.device)
    for batch in like_lengths(lengths, most_rows=rows, most_tokens=budget, limits=limits):
        found = _decode(engine(lm, pad_id), [requests[index] for index in batch], stops, embed)
        for index, answer in zip(batch, found, strict=True):
            answers[index] = answer
        if done is not None:
            done(batch, found)
    return [answer for answer in answers if answer is not None]


def _decode(
    engine: Engine, batch: Sequence[Request], stops: torch.Tensor, embed: Embed | None
) -> list[Answer]:
    device = stops.device
    most = max(request.limit for request in batch)
    left = torch.tensor([request.limit for request in batch], device=device)
    given = torch.full((len(batch), most), -1, dtype=torch.long, device=device)
    ended = torch.zeros(len(batch), dtype=torch.bool, device=device)
    alive = torch.arange(len(batch), device=device)
    going = torch.ones(len(batch), dtype=torch.bool, device=device)
    logits = engine.start(
        [request.ids for request in batch], [request.image for request in batch], embed
    )
    for step in range(most):
        token = logits.argmax(-1)
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
            engine.keep(kept)
            alive, token = alive[kept], token[kept]
            going = torch.ones(len(alive), dtype=torch.bool, device=device)
        logits = engine.step(token)
    rows = given.cpu().numpy()
    over = ended.cpu().numpy()
    return [
        Answer(ids=tuple(int(token) for token in row if token >= 0), ended=bool(stopped))
        for row, stopped in zip(rows, over, strict=True)
    ]
