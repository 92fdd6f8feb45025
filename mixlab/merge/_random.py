"""Random numbers that know their place: keyed by seed, model, tensor and element."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mixlab.merge._method import Context

# A counter block of Philox4x64: four words of 64 bits.
BLOCK_BYTES = 32


def random_key(context: Context, index: int) -> int:
    """128 bits that name the stream of merged model `index` in this tensor."""
    # JSON keeps the parts apart: ("ab", "c") and ("a", "bc") have other keys.
    words = json.dumps(["mixlab.merge", context.seed, context.key(index), context.name])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:16], "little")


def uniforms(context: Context, index: int, start: int, out: torch.Tensor) -> torch.Tensor:
    """Fill `out` with uniform numbers for elements `start`, `start + 1`, …

    Element e of a tensor has the same number however the tensor is cut, because it is number
    e % 8 of counter block e // 8 (Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3;
    Philox4x64-10). Safe from several threads, which it lets run.

    Args:
        context: gives seed, tensor name and the models' keys.
        index: of the merged model; -1 is the base.
        start: flat index of the first element.
        out: contiguous float32 on the CPU, of any shape; multiples of 2**-24 in [0, 1).

    Returns:
        `out`.
    """
    words = random_words(context, index, start, out.numel()) >> 8
    np.multiply(words, np.float32(2**-24), out=out.view(-1).numpy(), casting="unsafe")
    return out


def random_words(context: Context, index: int, start: int, count: int) -> npt.NDArray[Any]:
    """The 32 random bits of each of `count` elements from `start` on."""
    return _lanes(context, index, start, count, "<u4")


def tickets(context: Context, index: int, start: int, count: int) -> npt.NDArray[Any]:
    """A draw from 0 to 65535 for each of `count` elements from `start` on: 16 bits are enough to
    keep or drop, at half the cost."""
    return _lanes(context, index, start, count, "<u2")


def winning(odds: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """How many of the 65536 tickets win, so that odds hold to 2**-17; never all or none of them
    where odds lie inside (0, 1)."""
    odds = np.asarray(odds, np.float64)
    count = np.clip(np.rint(odds * 2**16), 1, 2**16 - 1)
    return np.where(odds <= 0, 0, np.where(odds >= 1, 2**16, count)).astype(np.int32)


def odds_drawn(odds: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The probability with which a ticket wins, exactly: `odds` as `winning` rounds them."""
    return np.asarray(winning(odds) / 2**16)


def tickets_like(tensor: torch.Tensor, context: Context, index: int) -> torch.Tensor:
    """Int32 tickets for a whole tensor, on its device: the same on every device."""
    drawn = tickets(context, index, 0, tensor.numel()).astype(np.int32)
    return torch.from_numpy(drawn).view(tensor.shape).to(tensor.device)


def _lanes(context: Context, index: int, start: int, count: int, dtype: str) -> npt.NDArray[Any]:
    """The parts of counter blocks that elements `start`, `start + 1`, … take, each one `dtype`."""
    each = BLOCK_BYTES // np.dtype(dtype).itemsize
    block, skip = divmod(start, each)
    blocks = -(-(skip + count) // each)
    stream = np.random.Philox(key=random_key(context, index)).advance(block)
    # Whole words as they come, like `random_raw`, which would hold the interpreter's lock.
    words = np.random.Generator(stream).integers(
        0, 2**64 - 1, size=blocks * BLOCK_BYTES // 8, dtype=np.uint64, endpoint=True
    )
    return words.astype("<u8", copy=False).view(dtype)[skip : skip + count]


def uniforms_like(tensor: torch.Tensor, context: Context, index: int) -> torch.Tensor:
    """Float32 uniform numbers for a whole tensor, on its device: the same on every device."""
    return uniforms(context, index, 0, torch.empty(tensor.shape)).to(tensor.device)
