"""How a merge goes: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import io
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from mixlab.merge.running._report import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PLAIN_SECONDS = 5.0


class MergeDisplay:
    """A `progress` callback for `merge_checkpoints`; a context manager around the call.

    Args:
        stream: where to; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        # A program without a terminal may have been given no standard error at all.
        self._stream = stream or sys.stderr or io.StringIO()
        self._told = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> MergeDisplay:
        if self._stream.isatty():
            # Imported only where there is something to draw: it takes a tenth of a second.
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            words = TextColumn("{task.description}", markup=False)
            console = Console(file=self._stream)
            self._bar = Bar(BarColumn(bar_width=20), words, console=console, transient=True)
            self._bar.add_task("", total=None)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far the merge is."""
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                completed=progress.done,
                total=progress.total,
                description=describe(progress),
            )
        elif time.monotonic() - self._told >= _PLAIN_SECONDS:
            self._told = time.monotonic()
            print(describe(progress), file=self._stream, flush=True)


def describe(progress: Progress) -> str:
    """`34%, 2.24 of 6.60 GB, 1.5 GB/s, 3 s left: model.layers.3.mlp.up_proj.weight`."""
    share = progress.done / progress.total if progress.total else 1.0
    left = "" if progress.left is None else f", {progress.left:.0f} s left"
    return (
        f"{share:.0%}, {progress.done / 1e9:.2f} of {progress.total / 1e9:.2f} GB, "
        f"{progress.rate / 1e9:.1f} GB/s{left}: {progress.tensor}"
    )
