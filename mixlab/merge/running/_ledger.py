"""What a merge found out while it ran, collected from all threads."""

from __future__ import annotations

import threading
from collections import defaultdict

Segments = list[str]


class Ledger:
    """Counts and digests; every method may be called from any thread.

    Args:
        total: bytes that the merge will read and write.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.current = ""
        self.changed = 0
        self.compared = 0
        self.inputs: dict[tuple[int, str], Segments] = {}
        self.output: dict[str, Segments] = {}
        # By tensor, then by first element, since a tensor may be read for several outputs.
        self.nonfinite: defaultdict[tuple[int, str], dict[int, tuple[int, int]]]
        self.nonfinite = defaultdict(dict)
        self.notes: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def advance(self, count: int, name: str) -> None:
        """`count` more bytes were read or written, last of tensor `name`."""
        with self._lock:
            self.done += count
            self.current = name

    def differs(self, changed: int, compared: int) -> None:
        """Of `compared` elements, `changed` have other bits than the target's."""
        with self._lock:
            self.changed += changed
            self.compared += compared

    def found_nonfinite(self, model: int, name: str, start: int, counts: tuple[int, int]) -> None:
        """NaN and infinite values from element `start` on; model -1 is the output."""
        with self._lock:
            self.nonfinite[model, name][start] = counts

    def noted(self, name: str, notes: list[str]) -> None:
        """What the method noted about a tensor; the same note counts once a tensor."""
        with self._lock:
            for note in notes:
                self.notes[note].add(name)
