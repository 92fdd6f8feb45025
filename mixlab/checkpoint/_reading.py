"""Tensors of a folder, read after its headers were checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mixlab.checkpoint._header import read_header, weight_files
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch


def read_state(folder: str | Path) -> dict[str, torch.Tensor]:
    """All tensors of a Hugging Face folder, on the CPU, with the names and dtypes of the files.

    Raises:
        MixlabError: a file is missing or corrupt, or two shards hold one name.
    """
    from safetensors.torch import load_file

    state: dict[str, torch.Tensor] = {}
    for path in weight_files(folder):
        twice = state.keys() & read_header(path).keys()
        if twice:
            raise MixlabError(f"{path}: {min(twice)} also stands in another shard")
        state.update(load_file(path))
    return state
