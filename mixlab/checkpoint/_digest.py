"""A digest of weights: equal if and only if names, dtypes, shapes and bytes are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mixlab.checkpoint._reading import read_state

if TYPE_CHECKING:
    import torch


def distinct_tensors(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`state` with each tied tensor once, in the order of `state`.

    Of the names of one tensor the alphabetically last is kept: that of the embedding rather than
    `lm_head.weight`, which is the one that transformers writes to disk.
    """
    names: dict[tuple[object, ...], str] = {}
    for name, tensor in state.items():
        # A meta tensor and an empty one have no address; they are never taken for tied.
        where = tensor.data_ptr() if not tensor.is_meta else 0
        key = (tensor.device, where, tensor.shape, tensor.stride()) if where else (name,)
        names[key] = max(name, names.get(key, name))
    kept = set(names.values())
    return {name: tensor for name, tensor in state.items() if name in kept}


def digest_state(state: Mapping[str, torch.Tensor]) -> str:
    """First 16 hex digits of sha256 over name, dtype, shape and bytes, in any order of `state`.

    Tied tensors count once, so a state dict and the file that transformers makes of it agree.
    """
    import torch

    parts = []
    for name, tensor in distinct_tensors(state).items():
        data = tensor.detach().cpu().contiguous()
        label = f"{name}|{str(data.dtype).removeprefix('torch.')}|{list(data.shape)}|"
        part = hashlib.sha256(label.encode())
        if data.numel():
            part.update(data.reshape(-1).view(torch.uint8).numpy().data)
        parts.append(part.digest())
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:16]


def digest_folder(folder: str | Path) -> str:
    """`digest_state` of the tensors of a Hugging Face folder, under the names of its files."""
    return digest_state(read_state(folder))
