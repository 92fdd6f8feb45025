"""The loss of a chunk: cross-entropy summed over its supervised tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from mixlab.train._chunks import Chunk

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def token_losses(model: Any, head: torch.nn.Module, chunk: Chunk) -> torch.Tensor:
    """Sum of the chunk's token losses in nats, a float32 scalar.

    `head`, the model's output layer, sees the supervised positions only: the same numbers, for the
    part of the vocabulary's cost that is needed.
    """
    inputs = {"input_ids": chunk.input_ids, "use_cache": False}
    if chunk.pixel_values is not None:
        inputs["pixel_values"] = chunk.pixel_values
    with _only(head, chunk):
        logits = model(**inputs).logits
    return cross_entropy(logits.float(), chunk.targets, reduction="sum")


@contextmanager
def _only(head: torch.nn.Module, chunk: Chunk) -> Iterator[None]:
    def pick(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden, *rest = args
        return (hidden[chunk.rows, chunk.columns], *rest)

    handle = head.register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()


def output_head(model: PreTrainedModel) -> torch.nn.Module:
    """The layer from hidden states to logits."""
    head = model.get_output_embeddings()
    if head is None:
        raise TypeError(f"{type(model).__name__} has no output embeddings; it is no language model")
    return head
