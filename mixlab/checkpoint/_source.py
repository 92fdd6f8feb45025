"""Where tensors come from: one face for a folder, one with an adapter, a remapped vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from mixlab.checkpoint._header import TensorEntry


class TensorSource(Protocol):
    """Tensors by name, known from headers, read on demand and from several threads at once."""

    @property
    def key(self) -> str:
        """Stable name of the source: it keys random bits and stands in reports."""
        ...

    @property
    def entries(self) -> Mapping[str, TensorEntry]:
        """Name -> dtype (as safetensors spells it) and shape. Offsets mean nothing to a reader."""
        ...

    def streams(self, name: str) -> bool:
        """Whether `read_into` can give any part of the tensor without making all of it."""
        ...

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        """Fill `buffer` with the tensor's bytes from byte `start` on.

        Raises:
            MixlabError: the file ends early, or changed since it was opened.
        """
        ...

    def read(self, name: str) -> torch.Tensor:
        """The whole tensor, fresh, on the CPU, in its stored dtype."""
        ...
