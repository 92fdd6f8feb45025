"""Pairs of prompt and answer as padded batches, rows of like length together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

from mixlab.testbed.tokenizer import ASSISTANT, BOS, END, IMAGE, USER

# Rows are sorted by length within this many batches: little padding, and batches stay mixed.
WINDOW = 4


@dataclass(frozen=True)
class Coded:
    """Token ids of one row; the first ``prompt`` of them carry no loss."""

    ids: np.ndarray
    prompt: int


@dataclass(frozen=True)
class Batch:
    """``ids`` int64 [B, T] padded on the right; ``labels`` int64 [B, T], -100 where no loss is.

    ``rows`` are the positions of the batch's rows in the list it was cut from.
    """

    ids: "torch.Tensor"
    labels: "torch.Tensor"
    rows: tuple[int, ...]


def code(
    tokenizer: "PreTrainedTokenizerFast",
    pairs: Sequence[tuple[str, str]],
    image_tokens: int = 0,
) -> list[Coded]:
    """Ids as the chat template gives them (a test holds the two to each other)."""
    ids = {
        name: tokenizer.convert_tokens_to_ids(name) for name in (BOS, USER, ASSISTANT, END, IMAGE)
    }
    prompts = tokenizer([q for q, _ in pairs], add_special_tokens=False)["input_ids"]
    answers = tokenizer([a for _, a in pairs], add_special_tokens=False)["input_ids"]
    head = [ids[BOS], ids[USER], *[ids[IMAGE]] * image_tokens]
    coded = []
    for prompt, answer in zip(prompts, answers, strict=True):
        begin = [*head, *prompt, ids[ASSISTANT]]
        row = np.array([*begin, *answer, *([ids[END]] if answer else [])], dtype=np.int64)
        coded.append(Coded(row, len(begin)))
    return coded


def batches(rows: Sequence[Coded], size: int, pad: int, seed: int) -> Iterator[Batch]:
    """One pass over ``rows`` in full batches of ``size``, in an order that ``seed`` decides."""
    rng = Random(f"batches-{seed}")
    order = list(range(len(rows)))
    rng.shuffle(order)
    for start in range(0, len(order) - size + 1, size * WINDOW):
        window = sorted(order[start : start + size * WINDOW], key=lambda i: len(rows[i].ids))
        groups = [window[i : i + size] for i in range(0, len(window) - size + 1, size)]
        rng.shuffle(groups)
        for group in groups:
            yield _stack([rows[i] for i in group], pad, tuple(group))


def _stack(rows: Sequence[Coded], pad: int, positions: tuple[int, ...]) -> Batch:
    import torch

    length = max(len(row.ids) for row in rows)
    ids = np.full((len(rows), length), pad, dtype=np.int64)
    labels = np.full((len(rows), length), -100, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        labels[i, row.prompt : len(row.ids)] = row.ids[row.prompt :]
    return Batch(torch.from_numpy(ids), torch.from_numpy(labels), positions)
