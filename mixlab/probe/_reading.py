"""Parts of tensors as floating numbers, through buffers that are used again."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from mixlab.checkpoint import TensorSource, item_size, torch_dtype
from mixlab.spec import MixlabError

PART = 1 << 20
FLOATS = ("F64", "F32", "F16", "BF16")


def read_part(source: TensorSource, name: str, start: int, count: int) -> torch.Tensor:
    """Elements `start` to `start + count` of a tensor in their stored dtype, flat, fresh.

    Raises:
        MixlabError: the file ends early or changed.
    """
    entry = source.entries[name]
    dtype = torch_dtype(entry.dtype)
    if not source.streams(name):
        return source.read(name).reshape(-1)[start : start + count].clone()
    out = torch.empty(count, dtype=dtype)
    if count:
        raw = out.view(torch.uint8).numpy()
        source.read_into(name, raw.data, start * item_size(entry.dtype))
    return out


def read_float(
    source: TensorSource, name: str, start: int, count: int, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """`read_part` in `dtype`.

    Raises:
        MixlabError: also where a value is NaN or infinite.
    """
    values = read_part(source, name, start, count).to(dtype)
    # Cheaper than a look at each value: a sum keeps what is not finite.
    if not bool(torch.isfinite(values.sum())) and not bool(torch.isfinite(values).all()):
        raise MixlabError(
            f"{source.key}: {name} holds NaN or infinity; no distance can be taken from it. "
            "Copy or download the file again"
        )
    return values


def parts(count: int, size: int = PART) -> Iterator[tuple[int, int]]:
    """(start, count) of consecutive parts."""
    for start in range(0, count, size):
        yield start, min(size, count - start)


def read_matrix(
    source: TensorSource, name: str, shape: tuple[int, int], dtype: torch.dtype
) -> torch.Tensor:
    """A whole matrix in `dtype`, converted part by part so that it stands in memory once."""
    if not source.streams(name):
        return source.read(name).to(dtype).reshape(shape)
    out = torch.empty(shape[0] * shape[1], dtype=dtype)
    for start, count in parts(out.numel()):
        out[start : start + count] = read_float(source, name, start, count, dtype)
    return out.view(shape)
