"""The k-th largest magnitude, exactly, by counting and without sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

# Elements of a part.
PART = 1 << 17
# Float32 magnitudes are ordered as their bits are; all are below.
LARGEST = (1 << 31) - 1

Bits = npt.NDArray[np.int32]
# Magnitude bits of elements start to stop; may be overwritten by the next call.
Read = Callable[[int, int], Bits]


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


def find_cuts(read: Read, numel: int, counts: Sequence[int], part: int = PART) -> list[Cut]:
    """Cuts after the `counts` largest magnitudes, in at most three passes over parts.

    The upper 16 bits are counted in a histogram, then the lower 16 of those in the bin that holds
    the k-th (exact, because float32 magnitudes are ordered as their bits are); a third pass finds
    the last one to keep of several that equal it. Memory is that of one part and two histograms.

    Args:
        read: magnitude bits of a part as int32.
        counts: each from 0 to `numel`.
    """
    trivial = {0: Cut(LARGEST, 0), numel: Cut(-1, 0)}
    wanted = sorted({count for count in counts if count not in trivial})
    if wanted:
        upper = _upper_histogram(read, numel, part)
        places = {count: _locate(upper, count) for count in wanted}
        lower = _lower_histograms(read, numel, {bin_ for bin_, _ in places.values()}, part)
        for count, (bin_, rest) in places.items():
            low, ties = _locate(lower[bin_], rest)
            bits = bin_ << 16 | low
            every = ties == lower[bin_][low]
            stop = numel if every else _nth(read, numel, bits, ties, part)
            trivial[count] = Cut(bits, stop)
    return [trivial[count] for count in counts]


def _parts(numel: int, part: int) -> Iterator[tuple[int, int]]:
    for start in range(0, numel, part):
        yield start, min(start + part, numel)


def _upper_histogram(read: Read, numel: int, part: int) -> npt.NDArray[np.int64]:
    counts = torch.zeros(1 << 15, dtype=torch.int64)
    shifted = torch.empty(min(part, numel), dtype=torch.int32)
    for start, stop in _parts(numel, part):
        bins = shifted[: stop - start]
        torch.bitwise_right_shift(torch.from_numpy(read(start, stop)), 16, out=bins)
        counts += torch.bincount(bins, minlength=1 << 15)
    return counts.numpy()


def _lower_histograms(
    read: Read, numel: int, bins: set[int], part: int
) -> dict[int, npt.NDArray[np.int64]]:
    counts = {bin_: np.zeros(1 << 16, np.int64) for bin_ in bins}
    for start, stop in _parts(numel, part):
        bits = read(start, stop)
        for bin_, histogram in counts.items():
            inside = bits >= bin_ << 16
            inside &= bits <= (bin_ << 16 | 0xFFFF)
            low = torch.from_numpy(bits[inside] & 0xFFFF)
            histogram += torch.bincount(low, minlength=1 << 16).numpy()
    return counts


def _locate(histogram: npt.NDArray[np.int64], count: int) -> tuple[int, int]:
    """The bin of the `count`-th from above, and how many of that bin it takes to reach it."""
    from_above = np.cumsum(histogram[::-1])
    place = int(np.searchsorted(from_above, count))
    bin_ = histogram.size - 1 - place
    return bin_, int(count - (from_above[place] - histogram[bin_]))


def _nth(read: Read, numel: int, bits: int, count: int, part: int) -> int:
    """One past the flat index of the `count`-th element that equals `bits`."""
    for start, stop in _parts(numel, part):
        equal = read(start, stop) == bits
        here = int(np.count_nonzero(equal))
        if here >= count:
            return start + int(np.flatnonzero(equal)[count - 1]) + 1
        count -= here
    raise AssertionError("the input changed while it was read")
