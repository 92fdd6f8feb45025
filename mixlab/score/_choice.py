"""Log-likelihood of choices: the context's keys and values are computed once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mixlab.score._batches import like_lengths, token_budget
from mixlab.score._cache import Answer
from mixlab.score._engines import Embed, cache_word, first_inputs, pad
from mixlab.score._room import roomy_cache

_MOST_CONTEXTS = 32
_LOGIT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class ChoiceRequest:
    """A context, ids int32 [tokens], and per choice the whole ids (context and choice).

    The log-likelihood is of what follows the first `len(context)` ids of each whole, as
    lm-evaluation-harness counts it (`TemplateLM._encode_pair`), so that a token which spans the
    border belongs to the choice.
    """

    context: np.ndarray
    wholes: tuple[np.ndarray, ...]
    image: Any = None

    @property
    def shared(self) -> int:
        """How many leading ids all wholes have in common, short of the scored ones; at least 1."""
        most = min([len(self.context), *(len(whole) - 1 for whole in self.wholes)])
        first = self.wholes[0][:most]
        for whole in self.wholes[1:]:
            differ = np.flatnonzero(whole[: len(first)] != first)
            if len(differ):
                first = first[: differ[0]]
        return max(1, len(first))


@torch.inference_mode()
def log_likelihoods(
    lm: Any,
    requests: Sequence[ChoiceRequest],
    *,
    pad_id: int,
    embed: Embed | None = None,
    most_rows: int | None = None,
    done: Callable[[list[int], list[Answer]], None] | None = None,
) -> list[Answer]:
    """Summed log-likelihood in nats of every choice, in the order of `requests`.

    A batch takes two passes: its contexts, padded on the left, then every choice, padded on the
    right, over its context's keys and values.
    """
    budget = token_budget(lm.config, lm.dtype.itemsize, str(lm.device))
    lengths = [request.shared for request in requests]
    extra = [
        len(request.wholes) * max(len(whole) for whole in request.wholes) for request in requests
    ]
    # Logits of a batch are rows x tokens x vocabulary in float32, so large vocabularies get
    # fewer rows.
    vocabulary = lm.get_output_embeddings().weight.shape[0]
    widest = max(
        (len(whole) - request.shared) * len(request.wholes)
        for request in requests
        for whole in request.wholes
    )
    rows = max(1, min(most_rows or _MOST_CONTEXTS, _LOGIT_BYTES // (4 * vocabulary * widest)))
    answers: list[Answer | None] = [None] * len(requests)
    for batch in like_lengths(lengths, most_rows=rows, most_tokens=budget, limits=extra):
        found = _score(lm, [requests[index] for index in batch], pad_id, embed)
        for index, answer in zip(batch, found, strict=True):
            answers[index] = answer
        if done is not None:
            done(batch, found)
    return [answer for answer in answers if answer is not None]


def _score(
    lm: Any, batch: Sequence[ChoiceRequest], pad_id: int, embed: Embed | None
) -> list[Answer]:
    device = lm.device
    shared = [request.shared for request in batch]
    heads = [request.wholes[0][:count] for request, count in zip(batch, shared, strict=True)]
    ids, mask = pad(heads, pad_id, left=True, device=device)
    before = torch.ones_like(ids) if mask is None else mask
    inputs = first_inputs(ids, [request.image for request in batch], embed)
    cache = roomy_cache(lm.config)
    word = cache_word(lm)
    first = (
        lm(
            **inputs,
            attention_mask=None if mask is None else before,
            position_ids=(before.cumsum(-1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
            **{word: cache},
        )
        .logits[:, -1]
        .float()
    )

    owner = [row for row, request in enumerate(batch) for _ in request.wholes]
    tails = [
        whole[count:]
        for request, count in zip(batch, shared, strict=True)
        for whole in request.wholes
    ]
    skips = [
        max(0, len(request.context) - count)
        for request, count in zip(batch, shared, strict=True)
        for _ in request.wholes
    ]
    width = max(len(tail) for tail in tails)
    padded = np.full((len(tails), width), pad_id, np.int64)
    scored = np.zeros((len(tails), width), bool)
    for row, (tail, skip) in enumerate(zip(tails, skips, strict=True)):
        padded[row, : len(tail)] = tail
        scored[row, skip : len(tail)] = True
    target = torch.from_numpy(padded).to(device)
    owners = torch.tensor(owner, device=device)
    logits = first[owners][:, None]
    if width > 1:
        cache.batch_select_indices(owners)
        starts = before.sum(-1)[owners]
        steps = torch.arange(width - 1, device=device)
        ahead = before.new_ones(len(tails), width - 1)
        rest = lm(
            input_ids=target[:, :-1],
            attention_mask=torch.cat([before[owners], ahead], dim=1),
            position_ids=starts[:, None] + steps,
            use_cache=True,
            **{word: cache},
        ).logits.float()
        logits = torch.cat([logits, rest], dim=1)
    picked = logits.gather(-1, target[..., None])[..., 0] - logits.logsumexp(-1)
    # Summed in float64, so that the order of padding can't move the last digits.
    keep = torch.from_numpy(scored).to(device)
    sums = torch.where(keep, picked.double(), 0.0).sum(-1).cpu().tolist()
    result: list[Answer] = []
    at = 0
    for request in batch:
        result.append(Answer(values=tuple(sums[at : at + len(request.wholes)])))
        at += len(request.wholes)
    return result
