"""How a sweep goes: a live table on a terminal, plain lines elsewhere, a log file always."""

import contextlib
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mixlab.study.jobs import Job

_WORDS = {"fit": "train", "confirm": "confirm", "score": "score"}
_PLAIN_SECONDS = 15.0


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def describe(job: Job) -> str:
    """`train no text, short, seed 1`."""
    words = f"{_WORDS[job.stage]} {job.arm}"
    return words if job.stage == "score" else f"{words}, seed {job.seed}"


class Stages:
    """Says how far the pair's building and the check of the inputs are."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._told: tuple[str, int] | None = None

    def __call__(self, stage: str, share: float) -> None:
        now = (stage, int(share * (20 if self._console.is_terminal else 4)))
        if now != self._told:
            self._told = now
            self._console.print(f"preparing: {stage} {share:.0%}", highlight=False)


class Display:
    """Shows jobs done, running, and time left.

    Time left: what is left in each stage at the mean time of that stage so far (of the other
    stages, where it has none), shared among the workers.
    """

    def __init__(self, console: Console, log: Path, workers: int) -> None:
        self._console = console
        self._log = log.open("a", encoding="utf-8")
        self._workers = workers
        self._began = time.monotonic()
        self._last_plain = self._began
        self._running: dict[str, tuple[Job, float, dict[str, Any]]] = {}
        self._seconds: dict[str, list[float]] = {}
        self._left: dict[str, int] = {}
        self._done = 0
        self._live: Live | None = None

    def __enter__(self) -> "Display":
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._table, refresh_per_second=4
            )
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, value, trace)
        with contextlib.suppress(OSError):
            self._log.close()

    def line(self, text: str, *, quiet: bool = False) -> None:
        """One line, on the console (unless quiet) and in the log."""
        with contextlib.suppress(OSError):  # a full disk is told by what must be written
            self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            self._log.flush()
        if not quiet:
            self._console.print(Text(text), soft_wrap=True)

    def remaining(self, left: dict[str, int]) -> None:
        """Jobs still to be done, by stage, running ones included."""
        self._left = dict(left)

    def started(self, job: Job) -> None:
        """A worker took `job`."""
        self._running[job.key] = (job, time.monotonic(), {})
        self.line(f"start {describe(job)} [{job.run}]", quiet=True)

    def progressed(self, job: Job, body: dict[str, Any]) -> None:
        """A running job's step, loss or note."""
        known = self._running.get(job.key)
        if known is None:
            return
        self._running[job.key] = (job, known[1], {**known[2], **body})
        now = time.monotonic()
        if self._live is None and now - self._last_plain >= _PLAIN_SECONDS:
            self._last_plain = now
            running = "; ".join(
                f"{describe(one)} {_state(state)}".strip()
                for one, _, state in self._running.values()
            )
            self.line(f"{self._summary()}: {running}")

    def ended(self, job: Job, text: str = "") -> None:
        """`job` is done."""
        known = self._running.pop(job.key, None)
        seconds = time.monotonic() - known[1] if known else 0.0
        self._seconds.setdefault(job.stage, []).append(seconds)
        self._done += 1
        self._last_plain = time.monotonic()
        detail = f" ({text})" if text else ""
        self.line(f"{self._summary()}: {describe(job)} in {duration(seconds)}{detail}")

    def _summary(self) -> str:
        left = sum(self._left.values())
        text = f"{self._done}/{self._done + left} jobs"
        seconds = self._time_left()
        return text if seconds is None or not left else f"{text}, {duration(seconds)} left"

    def _time_left(self) -> float | None:
        means = {stage: sum(v) / len(v) for stage, v in self._seconds.items() if v}
        if not means:
            return None
        other = sum(means.values()) / len(means)
        total = sum(count * means.get(stage, other) for stage, count in self._left.items())
        now = time.monotonic()
        for job, began, _ in self._running.values():
            total -= min(now - began, means.get(job.stage, other))
        return max(total / self._workers, 0.0)

    def _table(self) -> Table:
        table = Table(title=f"{self._summary()}, {duration(time.monotonic() - self._began)} so far")
        for column in ("run", "step", "loss", "time"):
            table.add_column(column)
        for job, began, state in self._running.values():
            step = f"{state['step']}/{state.get('steps', '?')}" if "step" in state else ""
            loss = f"{state['loss']:.4f}" if state.get("loss") is not None else ""
            note = str(state.get("note", ""))
            table.add_row(
                Text(describe(job)), step or note, loss, duration(time.monotonic() - began)
            )
        return table


def _state(state: dict[str, Any]) -> str:
    parts = []
    if "step" in state:
        parts.append(f"step {state['step']}/{state.get('steps', '?')}")
    if state.get("loss") is not None:
        parts.append(f"loss {state['loss']:.4f}")
    if state.get("note"):
        parts.append(str(state["note"]))
    return " ".join(parts)
