"""Memory of whole tensors: reused buffers, and a limit on how much is in use at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

# Two large tensors are merged side by side only where both fit in this many bytes.
BUDGET = 1_000_000_000


class Memory:
    """Lends buffers of bytes to threads and takes them back.

    A lease is granted when it fits into the budget beside those that are out, or when it is alone:
    the peak is the budget or the largest lease, whichever is more.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._leased = 0
        self._free: list[np.ndarray] = []
        self._lock = threading.Lock()

    def reserve(self, size: int) -> bool:
        """Take `size` bytes of the budget, if they are there now."""
        with self._lock:
            if self._leased and self._leased + size > self._budget:
                return False
            self._leased += size
            self._shrink()
            return True

    def release(self, size: int) -> None:
        """Give `size` bytes of the budget back."""
        with self._lock:
            self._leased -= size

    def take(self, size: int) -> np.ndarray:
        """A uint8 buffer of exactly `size` bytes, with anything in it; give it back."""
        with self._lock:
            fitting = [index for index, one in enumerate(self._free) if one.size >= size]
            if fitting:
                best = min(fitting, key=lambda index: self._free[index].size)
                # A small tensor does not hold a large buffer that another will want.
                if self._free[best].size <= 4 * size + (1 << 20):
                    return self._free.pop(best)[:size]
        return np.empty(size, dtype=np.uint8)

    def give(self, buffers: Sequence[np.ndarray]) -> None:
        """Take back what `take` gave."""
        with self._lock:
            for one in buffers:
                self._free.append(one if one.base is None else one.base)
            self._shrink()

    def _shrink(self) -> None:
        """Drop unused buffers, smallest first, that would not fit beside what is leased."""
        self._free.sort(key=lambda one: -one.size)
        while self._free and self._leased + sum(one.size for one in self._free) > self._budget:
            self._free.pop()
