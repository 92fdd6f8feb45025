"""Random numbers that know their place: keyed by seed, model, tensor and element."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch

from mixlab.merge._method import Context

# A counter block of Philox4x64 is four 64-bit words; numpy makes a float32 of each half of a word.
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
    numbers = out.view(-1).numpy()
    bits = np.random.Philox(key=random_key(context, index))
    block, skip = divmod(start, BLOCK)
    bits.advance(block)
    generator = np.random.Generator(bits)
    done = 0
    if skip:
        first = generator.random(BLOCK, dtype=np.float32)[skip : skip + numbers.size]
        done = first.size
        numbers[:done] = first
    if done < numbers.size:
        generator.random(dtype=np.float32, out=numbers[done:])
    return out


def uniforms_like(tensor: torch.Tensor, context: Context, index: int) -> torch.Tensor:
    """Float32 uniform numbers for a whole tensor, on its device: the same on every device."""
    return uniforms(context, index, 0, torch.empty(tensor.shape)).to(tensor.device)
