"""How a merge goes: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from mixlab.merge._report import Progress

_PLAIN_SECONDS = 5.0


class MergeDisplay:
    """A `progress` callback for `merge_checkpoints`; a context manager around the call."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._told = time.monotonic()
        self._bar = Bar(
            BarColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> MergeDisplay:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far the merge is."""
        if self._console.is_terminal:
            self._bar.update(
                self._task,
                completed=progress.done,
                total=progress.total,
                description=describe(progress),
            )
        elif time.monotonic() - self._told >= _PLAIN_SECONDS:
            self._told = time.monotonic()
            self._console.print(describe(progress), highlight=False, markup=False, soft_wrap=True)


def describe(progress: Progress) -> str:
    """`34%, 2.24 of 6.60 GB, 1.5 GB/s, 3 s left: model.layers.3.mlp.up_proj.weight`."""
    share = progress.done / progress.total if progress.total else 1.0
    left = "" if progress.left is None else f", {progress.left:.0f} s left"
    return (
        f"{share:.0%}, {progress.done / 1e9:.2f} of {progress.total / 1e9:.2f} GB, "
        f"{progress.rate / 1e9:.1f} GB/s{left}: {progress.tensor}"
    )
