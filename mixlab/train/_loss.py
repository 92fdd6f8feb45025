"""The loss of a chunk: cross-entropy summed over its supervised tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from mixlab.spec import MixlabError
from mixlab.train._chunks import Chunk

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle
    from transformers import PreTrainedModel


class TokenLosses:
    """Token losses of a language model or VLM, computed at supervised positions only.

    After the last attention every layer works on each position alone, so the last MLP and the
    output head are given just the positions whose loss is asked for: the same numbers for a part
    of the cost.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        head = model.get_output_embeddings()
        if head is None:
            raise MixlabError(f"{type(model).__name__} has no output head; it is no language model")
        self._head: torch.nn.Module = head
        self._mlp = _last_mlp(model)

    def __call__(self, model: Any, chunk: Chunk) -> torch.Tensor:
        """Sum of the chunk's token losses in nats, a float32 scalar.

        `model` is the model itself, or what accelerate made of it.
        """
        inputs: dict[str, Any] = {"input_ids": chunk.input_ids, "use_cache": False}
        if chunk.pixel_values is not None:
            inputs["pixel_values"] = chunk.pixel_values
        with self._only(chunk.rows, chunk.columns):
            logits = model(**inputs).logits
        return cross_entropy(logits.float(), chunk.targets, reduction="sum")

    @contextmanager
    def _only(self, rows: torch.Tensor, columns: torch.Tensor) -> Iterator[None]:
        shapes: list[torch.Size] = []

        def pick(_: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            shapes.append(args[0].shape)
            return (args[0][rows, columns], *args[1:])

        def place(_: torch.nn.Module, __: Any, picked: torch.Tensor) -> torch.Tensor:
            whole = picked.new_zeros(*shapes[-1][:2], picked.shape[-1])
            return whole.index_put((rows, columns), picked)

        handles: list[RemovableHandle] = [self._head.register_forward_pre_hook(pick)]
        if self._mlp is not None:
            handles.append(self._mlp.register_forward_pre_hook(pick))
            handles.append(self._mlp.register_forward_hook(place))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _last_mlp(model: Any) -> torch.nn.Module | None:
    """The last layer's MLP if it is a dense one; None where it routes, or has another name."""
    layers = getattr(model.get_decoder(), "layers", None)
    mlp = getattr(layers[-1], "mlp", None) if layers else None
    if mlp is None or any(
        list(child.parameters()) and not isinstance(child, torch.nn.Linear)
        for child in mlp.children()
    ):
        return None
    return mlp
