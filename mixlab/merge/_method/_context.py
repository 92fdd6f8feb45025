"""What a formula is given beside settings: tensors, and what is known of where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Context:
    """What a formula may know beside the numbers.

    Args:
        name: of the output tensor; with `seed` and `models` it keys every random bit.
        models: a stable key of each merged model, in order; positions when empty.
        seed: recorded by every merge.
        layer, layers: index of the block that the tensor stands in (None outside), and how many.
        notes: what the report should count, appended by the formula ("handed to lerp").
    """

    name: str = ""
    models: tuple[str, ...] = ()
    seed: int = 0
    layer: int | None = None
    layers: int = 0
    notes: list[str] = field(default_factory=list, compare=False)

    def key(self, index: int) -> str:
        """The random key of merged model `index` (-1: the base)."""
        if index < 0:
            return "base"
        return self.models[index] if self.models else str(index)
