"""The k-th largest magnitude, exactly, by counting (of few, by selection), without sorting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

# Float32 magnitudes are ordered as their bits are; all are below.
LARGEST = (1 << 31) - 1

Bits = npt.NDArray[np.int32]
# Magnitude bits from the first element to the last, part by part; a part is used before the next
# one is made, so that all may lie in one place.
Parts = Callable[[], Iterable[Bits]]
# Elements up to which a partial sort costs less than counting into so many bins.
FEW = 1 << 15
# Elements of the bin in question that are gathered before they are counted.
GATHERED = 1 << 17


@dataclass(frozen=True)
class Cut:
    """Where the first k elements end, in descending magnitude and of equals the earlier first.

    Args:
        bits: of the k-th magnitude as float32; NaN counts as larger than any number.
        stop: of elements of this magnitude, those at flat indices below belong to the first k.
    """

    bits: int
    stop: int

    def first(self, bits: Bits, start: int, out: npt.NDArray[np.bool_]) -> None:
        """Write which elements are among the first k, for a part that begins at `start`."""
        split = min(max(self.stop - start, 0), bits.size)
        np.greater_equal(bits[:split], self.bits, out=out[:split])
        np.greater(bits[split:], self.bits, out=out[split:])


def stricter(one: Cut, other: Cut) -> Cut:
    """The one of two cuts of a tensor that fewer elements come before."""
    return max(one, other, key=lambda cut: (cut.bits, -cut.stop))


def threshold_cut(threshold: float, numel: int) -> Cut:
    """The cut after all of `numel` magnitudes that are `threshold` (as float32) or more."""
    return Cut(int(np.float32(abs(threshold)).view(np.int32)), numel)


def find_cuts(parts: Parts, numel: int, counts: Sequence[int]) -> list[Cut]:
    """Cuts after the `counts` largest magnitudes, in at most three passes over parts.

    The upper 16 bits are counted in a histogram, then the lower 16 of those in the bin that holds
    the k-th (exact, because float32 magnitudes are ordered as their bits are); a third pass finds
    the last one to keep of several that equal it. Memory is that of one part and two histograms.
    Of `FEW` elements, where histograms would cost more than the elements, numpy selects.

    Args:
        parts: starts a pass over magnitude bits, `numel` in all.
        counts: each from 0 to `numel`.
    """
    cuts = {0: Cut(LARGEST, 0), numel: Cut(-1, 0)}
    wanted = sorted({count for count in counts if count not in cuts})
    if wanted and numel <= FEW:
        few = np.concatenate([part.copy() for part in parts()])
        cuts |= {count: _cut_of_few(few, count) for count in wanted}
    elif wanted:
        upper = _count_upper(parts)
        places = {count: _locate(upper, count) for count in wanted}
        lower = _count_lower(parts, {bin_ for bin_, _ in places.values()})
        for count, (bin_, rest) in places.items():
            low, ties = _locate(lower[bin_], rest)
            bits = bin_ << 16 | low
            every = ties == lower[bin_][low]
            cuts[count] = Cut(bits, numel if every else _nth(parts, bits, ties))
    return [cuts[count] for count in counts]


def _cut_of_few(bits: Bits, count: int) -> Cut:
    at = bits.size - count
    kth = int(np.partition(bits, at)[at])
    ties = count - int(np.count_nonzero(bits > kth))
    every = ties == int(np.count_nonzero(bits == kth))
    return Cut(kth, bits.size if every else _nth(lambda: [bits], kth, ties))


def _count_upper(parts: Parts) -> npt.NDArray[np.int64]:
    counts = torch.zeros(1 << 15, dtype=torch.int64)
    for bits in parts():
        counts += torch.bincount(torch.from_numpy(bits) >> 16, minlength=1 << 15)
    return counts.numpy()


def _count_lower(parts: Parts, bins: Collection[int]) -> dict[int, npt.NDArray[np.int64]]:
    counters = {bin_: _LowerCounter(bin_) for bin_ in bins}
    for bits in parts():
        for counter in counters.values():
            counter.add(bits)
    return {bin_: counter.counts() for bin_, counter in counters.items()}


class _LowerCounter:
    """Counts the lower 16 bits of what is in one bin, a good many at a time."""

    def __init__(self, bin_: int) -> None:
        self._floor = np.int32(bin_ << 16)
        self._counts = torch.zeros(1 << 16, dtype=torch.int64)
        self._found: list[Bits] = []
        self._waiting = 0

    def add(self, bits: Bits) -> None:
        # Below the bin the difference wraps to a large unsigned number.
        inside = (bits - self._floor).view(np.uint32) < 1 << 16
        self._found.append(bits[inside] & 0xFFFF)
        self._waiting += self._found[-1].size
        if self._waiting >= GATHERED:
            self.counts()

    def counts(self) -> npt.NDArray[np.int64]:
        if self._found:
            low = torch.from_numpy(np.concatenate(self._found))
            self._counts += torch.bincount(low, minlength=1 << 16)
            self._found, self._waiting = [], 0
        return self._counts.numpy()


def _locate(histogram: npt.NDArray[np.int64], count: int) -> tuple[int, int]:
    """The bin of the `count`-th from above, and how many of that bin it takes to reach it."""
    from_above = np.cumsum(histogram[::-1])
    place = int(np.searchsorted(from_above, count))
    bin_ = histogram.size - 1 - place
    return bin_, int(count - (from_above[place] - histogram[bin_]))


def _nth(parts: Parts, bits: int, count: int) -> int:
    """One past the flat index of the `count`-th element that equals `bits`."""
    start = 0
    for part in parts():
        equal = part == bits
        here = int(np.count_nonzero(equal))
        if here >= count:
            return start + int(np.flatnonzero(equal)[count - 1]) + 1
        count -= here
        start += part.size
    raise AssertionError("the input changed while it was read")
