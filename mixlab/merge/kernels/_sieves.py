"""What sparsifies a task vector part by part: by magnitude, or by random bits."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from mixlab.merge._method import Context
from mixlab.merge._random import tickets, winning
from mixlab.merge.kernels import _parts
from mixlab.merge.kernels._parts import MAGNITUDE, Descent, parts
from mixlab.merge.kernels._select import Bits, find_cuts, stricter, threshold_cut
from mixlab.merge.methods._rescale import block_sums, match_l1

Flags = npt.NDArray[np.bool_]


class Sieve(Protocol):
    """Zeroes what is dropped of any part that begins at a multiple of 8, in place."""

    def sift(self, delta: torch.Tensor, start: int) -> None: ...


class Band:
    """Keeps the descending ranks from `low` to `high` of a task vector's magnitudes.

    Those below `threshold` are dropped too.
    """

    def __init__(self, descent: Descent, low: int, high: int, threshold: float = 0.0) -> None:
        self.low, upper = find_cuts(descent.magnitudes, descent.numel, [low, high])
        # Both cuts end a stretch of one order, so that the shorter stretch has passed both.
        self.high = stricter(upper, threshold_cut(threshold, descent.numel))
        self.outliers = low > 0
        self._bits = torch.empty(min(_parts.PART, descent.numel), dtype=torch.int32)
        self._flags = np.empty((2, min(_parts.PART, descent.numel)), np.bool_)

    def sift(self, delta: torch.Tensor, start: int) -> None:
        size = delta.numel()
        bits: Bits = torch.bitwise_and(
            delta.view(torch.int32), MAGNITUDE, out=self._bits[:size]
        ).numpy()
        kept, dropped = self._flags[:, :size]
        self.high.first(bits, start, kept)
        if self.outliers:
            self.low.first(bits, start, dropped)
            np.not_equal(kept, dropped, out=kept)
        delta.mul_(torch.from_numpy(kept.view(np.uint8)))


class Lottery:
    """Keeps each element with one probability."""

    def __init__(self, density: float, context: Context, index: int, numel: int) -> None:
        self.limit = int(winning(density))
        self.context, self.index = context, index
        self._flags = np.empty(min(_parts.PART, numel), np.bool_)

    def flags(self, start: int, size: int) -> Flags:
        """Which elements of a part are kept; overwritten by the next call."""
        drawn = tickets(self.context, self.index, start, size)
        return np.less(drawn, self.limit, out=self._flags[:size])

    def sift(self, delta: torch.Tensor, start: int) -> None:
        kept = self.flags(start, delta.numel())
        delta.mul_(torch.from_numpy(kept.view(np.uint8)))


class Drawn:
    """Keeps what a mask of one bit an element says, times a factor an element if there is one."""

    def __init__(self, numel: int, factors: torch.Tensor | None = None) -> None:
        self._mask = np.empty(-(-numel // 8), np.uint8)
        self._factors = factors

    def record(self, flags: Flags, start: int) -> None:
        packed = np.packbits(flags)
        self._mask[start // 8 : start // 8 + packed.size] = packed

    def sift(self, delta: torch.Tensor, start: int) -> None:
        size = delta.numel()
        packed = self._mask[start // 8 : -(-(start + size) // 8)]
        delta.mul_(torch.from_numpy(np.unpackbits(packed, count=size)))
        if self._factors is not None:
            delta.mul_(self._factors[start : start + size])


def l1_scale(descent: Descent, sieve: Sieve) -> float:
    """The factor that gives what a sieve keeps the L1 norm of the whole task vector."""
    before: list[float] = []
    after: list[float] = []
    for start, stop in parts(descent.numel):
        magnitudes = descent.part(start, stop).abs_()
        before += block_sums(magnitudes)
        sieve.sift(magnitudes, start)
        after += block_sums(magnitudes)
    return match_l1(before, after)


def draw_lottery(lottery: Lottery, descent: Descent) -> tuple[Drawn, float]:
    """The lottery's mask drawn once for all passes, and its L1 scale."""
    drawn = Drawn(descent.numel)
    before: list[float] = []
    after: list[float] = []
    for start, stop in parts(descent.numel):
        flags = lottery.flags(start, stop - start)
        drawn.record(flags, start)
        magnitudes = descent.part(start, stop).abs_()
        before += block_sums(magnitudes)
        magnitudes.mul_(torch.from_numpy(flags.view(np.uint8)))
        after += block_sums(magnitudes)
    return drawn, match_l1(before, after)
