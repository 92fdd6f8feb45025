"""Random numbers that know their place: keyed by seed, model, tensor and element."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import numpy.typing as npt
import torch

from mixlab.merge._method import Context

# A counter block of Philox4x64 is four 64-bit words; an element takes half a word.
BLOCK = 8


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


def random_words(context: Context, index: int, start: int, count: int) -> npt.NDArray[np.uint32]:
    """The 32 random bits of each of `count` elements from `start` on."""
    block, skip = divmod(start, BLOCK)
    blocks = -(-(skip + count) // BLOCK)
    stream = np.random.Philox(key=random_key(context, index)).advance(block)
    # Whole words as they come, like `random_raw`, which would hold the interpreter's lock.
    words = np.random.Generator(stream).integers(
        0, 2**64 - 1, size=blocks * BLOCK // 2, dtype=np.uint64, endpoint=True
    )
    return words.astype("<u8", copy=False).view("<u4")[skip : skip + count]


def limits(shares: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """What random words are below where uniform numbers are below `shares`, exactly."""
    return np.ceil(np.asarray(shares, np.float64) * 2**24).astype(np.uint64) << np.uint64(8)


def uniforms_like(tensor: torch.Tensor, context: Context, index: int) -> torch.Tensor:
    """Float32 uniform numbers for a whole tensor, on its device: the same on every device."""
    return uniforms(context, index, 0, torch.empty(tensor.shape)).to(tensor.device)
