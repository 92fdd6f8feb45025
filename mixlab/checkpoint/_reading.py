"""Tensors of a folder, read after its headers were checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mixlab.checkpoint._open import Checkpoint

if TYPE_CHECKING:
    import torch


def read_state(folder: str | Path) -> dict[str, torch.Tensor]:
    """All tensors of a Hugging Face folder, on the CPU, with the names and dtypes of the files.

    Raises:
        MixlabError: a file is missing or corrupt, or two shards hold one name.
    """
    with Checkpoint(folder) as checkpoint:
        return {name: checkpoint.read(name) for name in checkpoint.entries}
