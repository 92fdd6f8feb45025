"""Task vectors in float32, part by part, in scratch that stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

# Elements of a part: several float32 parts stay in the second-level cache. Whole blocks of
# `block_sums` and whole counter blocks of random words.
PART = 1 << 17
MAGNITUDE = 0x7FFFFFFF


def parts(numel: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of consecutive parts."""
    for start in range(0, numel, PART):
        yield start, min(start + PART, numel)


def scratch(numel: int) -> torch.Tensor:
    """Float32 room for one part."""
    return torch.empty(min(PART, numel))


def widen(part: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    """The part in float32: itself, or converted into `room`."""
    if part.dtype == torch.float32:
        return part
    wide = room[: part.numel()]
    # Subtracting half precision straight into float32 would round the difference to half first.
    return wide.copy_(part)


class Descent:
    """base - tensor: the task vector's negative, in which what does not move is +0.0."""

    def __init__(self, tensor: torch.Tensor, base: torch.Tensor) -> None:
        self.tensor, self.base, self.numel = tensor.view(-1), base.view(-1), base.numel()
        self._one, self._two = scratch(self.numel), scratch(self.numel)

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Elements start to stop, in scratch that the next call overwrites."""
        base = widen(self.base[start:stop], self._one)
        tensor = widen(self.tensor[start:stop], self._two)
        return torch.sub(base, tensor, out=self._one[: stop - start])

    def bits(self, start: int, stop: int) -> npt.NDArray[np.int32]:
        """Magnitude bits of a part, in the same scratch."""
        return self.part(start, stop).view(torch.int32).bitwise_and_(MAGNITUDE).numpy()

    def magnitudes(self) -> Iterator[npt.NDArray[np.int32]]:
        """Magnitude bits of all parts, one at a time."""
        for start, stop in parts(self.numel):
            yield self.bits(start, stop)
