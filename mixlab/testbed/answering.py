"""Greedy answers of the testbed's models, for the figures of a build."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlab.testbed.batches import Coded

if TYPE_CHECKING:
    import torch


def answer(
    model: Any,
    prompts: Sequence[Coded],
    *,
    stop: int,
    most: int = 28,
    embeds: Any = None,
    rows: int = 256,
) -> list[list[int]]:
    """Ids that follow each prompt, up to the stop token.

    Prompts of one length go together, so that nothing is padded. ``embeds(ids, positions)``, if
    given, turns ids [B, T] and the prompts' positions in the list into input embeddings.
    """
    import torch

    groups: dict[int, list[int]] = defaultdict(list)
    for i, prompt in enumerate(prompts):
        groups[len(prompt.ids)].append(i)
    answers: list[list[int]] = [[] for _ in prompts]
    with torch.inference_mode():
        for members in groups.values():
            for start in range(0, len(members), rows):
                chunk = members[start : start + rows]
                ids = torch.from_numpy(np.stack([prompts[i].ids for i in chunk]))
                inputs = (
                    {"input_ids": ids} if embeds is None else {"inputs_embeds": embeds(ids, chunk)}
                )
                for i, found in zip(chunk, _greedy(model, inputs, stop, most), strict=True):
                    answers[i] = found
    return answers


def _greedy(model: Any, inputs: dict[str, "torch.Tensor"], stop: int, most: int) -> list[list[int]]:
    out = model(**inputs, use_cache=True, logits_to_keep=1)
    token = out.logits[:, -1].argmax(-1)
    found: list[list[int]] = [[] for _ in token]
    open_rows = [True] * len(found)
    for _ in range(most):
        for i, t in enumerate(token.tolist()):
            open_rows[i] = open_rows[i] and t != stop
            if open_rows[i]:
                found[i].append(t)
        if not any(open_rows):
            break
        out = model(
            input_ids=token[:, None],
            cache=out.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        token = out.logits[:, -1].argmax(-1)
    return found
