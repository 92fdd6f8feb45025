"""`mixlab sweep`: one coordinator, a few workers, a folder that survives anything."""

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from mixlab import MixlabError
from mixlab.store import Tables, check_free_space, lock_folder
from mixlab.study.folder import asked_for, check, claim, free_name
from mixlab.study.jobs import Job
from mixlab.study.pool import Message, Pool
from mixlab.study.progress import Display, Stages, describe
from mixlab.study.recipes import Recipes
from mixlab.study.schedule import Schedule
from mixlab.study.sweepfile import load_sweep
from mixlab.study.trials import TrialBook
from mixlab.study.words import answer_words
from mixlab.study.worker import make_executor

_LINGER_SECONDS = 30.0
_MOST_WORKERS = 2


@dataclass(frozen=True)
class SweepResult:
    """What a sweep left.

    Attributes:
        folder: the study.
        jobs: how many jobs this start did; 0 when nothing was left to do.
        report: the page, None if none was asked for.
    """

    folder: Path
    jobs: int
    report: Path | None


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM ends a sweep as Ctrl-C does."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread: the caller decides about signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait_for_old_workers(folder: Path) -> None:
    """Workers of a killed start are killed by the kernel; wait until none is left."""
    with lock_folder(folder, wait=_LINGER_SECONDS, name=".workers"):
        pass


class _Loop:
    """Hands out jobs and listens until nothing is left."""

    def __init__(self, schedule: Schedule, pool: Pool, book: TrialBook, tables: Tables) -> None:
        self._schedule = schedule
        self._pool = pool
        self._book = book
        self._tables = tables
        self._deaths: dict[str, int] = {}
        self._failure: str | None = None
        self.jobs = 0

    def run(self, display: Display) -> None:
        """Until all is done.

        Raises:
            MixlabError: a job failed; those that ran beside it were finished first.
        """
        self._book.write_table(self._tables)
        while not self._schedule.finished:
            display.remaining(self._schedule.remaining())
            while self._failure is None and self._pool.free:
                job = self._schedule.next()
                if job is None:
                    break
                self._pool.submit(job)
                display.started(job)
            if not self._pool.busy:
                if self._failure is None:
                    raise MixlabError("the sweep stopped with work left and none that can start")
                raise MixlabError(self._failure)
            for message in self._pool.messages(timeout=0.5):
                self._hear(message, display)

    def _hear(self, message: Message, display: Display) -> None:
        job, body = message.job, message.body
        if message.kind == "progress":
            display.progressed(job, body)
        elif message.kind == "done":
            self.jobs += 1
            self._schedule.done(job, body["info"])
            self._schedule.advance()
            self._book.write_table(self._tables)
            info = body["info"]
            values = ", ".join(
                f"{k} {v:.3f}" for k, v in info["objectives"].items() if v is not None
            )
            shown = f"failed: {info['failed']}" if info.get("failed") else values
            display.remaining(self._schedule.remaining())
            display.ended(job, shown)
            display.remaining(self._schedule.remaining())
        elif message.kind == "died":
            deaths = self._deaths[job.key] = self._deaths.get(job.key, 0) + 1
            display.line(f"the worker of {describe(job)} died ({body['how']})")
            if deaths > 1:
                self._fail(job, f"its worker died twice ({body['how']}); is memory short?")
            else:
                self._schedule.again(job)
        else:
            log = "; the traceback is in the study's logs/" if body.get("unexpected") else ""
            self._fail(job, f"{body['message']}{log}")

    def _fail(self, job: Job, reason: str) -> None:
        self._failure = self._failure or (
            f"{describe(job)}: {reason}\nNothing that was finished is lost: mend the cause and "
            "start the same command again."
        )


def run_sweep(
    file: str | os.PathLike[str],
    *,
    overrides: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    trials: int | None = None,
    workers: int | None = None,
    new: bool = False,
    executor: dict[str, Any] | None = None,
    console: Console | None = None,
    report: bool = True,
) -> SweepResult:
    """Run the sweep in `file`, or go on with it, and write its report.

    Started again after any interruption it continues: finished jobs are kept, open trials go on
    under their numbers, and what was asked for is what an unbroken start would have asked for.

    Args:
        overrides: `a.b=c`, each setting one value of the file.
        out: the study's folder; `studies/<name>` by default.
        trials: instead of the file's `trials`.
        workers: processes; by default one a core, at most 2. Results do not depend on it.
        new: start beside an existing study (`<folder>-2`, ...) instead of continuing it.
        executor: `{"make": "module:function", "arguments": {...}}`; by default the real one.
        console: where to show progress.

    Raises:
        MixlabError: wrong settings, a folder of another study, or a run that failed.
    """
    console = console or Console(stderr=True)
    if trials is not None:
        overrides = [*overrides, f"trials={trials}"]
    spec, located = load_sweep(file, overrides)
    if workers is not None and workers < 1:
        raise MixlabError(f"workers is {workers}; expected 1 or more")
    size = workers or min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    folder = Path(out) if out is not None else Path("studies") / spec.name
    folder = free_name(folder) if new else folder
    described: dict[str, Any] = executor or {
        "make": "mixlab.study.execute:make",
        "arguments": {
            "sweep": os.fspath(file),
            "spec": spec.model_dump(mode="json"),
        },
    }
    made = make_executor(described)
    recipes = Recipes(spec, located, made)
    baselines = recipes.baselines()
    fixed = [*baselines, *recipes.dilutions(baselines), *recipes.twins(baselines)]
    asked = asked_for(spec, recipes.base)
    # Before the folder is made, so that a mistake leaves none.
    check(folder, spec, asked)
    with _termination_as_interrupt(), lock_folder(folder):
        _wait_for_old_workers(folder)
        # Before the pair is built, which may take minutes.
        held = check(folder, spec, asked)
        described["arguments"] |= made.prepare(Stages(console))
        identity = made.identity()
        if held is None:
            # Before the folder is claimed, so that the mended sweep may have it.
            made.preflight(fixed, Stages(console))
        asked |= {"identity": identity}
        claim(folder, spec, file=os.fspath(file), given=located.data, asked=asked)
        book = TrialBook(folder / "journal.log", spec, recipes, baselines)
        fixed = [book.numbered(arm) for arm in fixed]
        schedule = Schedule(folder, identity, book, fixed, made.untrained())
        left = schedule.remaining()
        check_free_space(folder, made.bytes_needed(left.get("fit", 0)))
        tables = Tables(folder / "tables")
        pool = Pool(size, folder, described, spec.threads)
        loop = _Loop(schedule, pool, book, tables)
        with Display(console, folder / "log.txt", size) as display:
            done, known = schedule.counts()
            display.line(
                f"study {spec.name} in {folder}: {done} of {known} runs done, "
                f"{sum(left.values())} jobs left, {size} workers"
                if not schedule.finished
                else f"study {spec.name} in {folder}: all {known} runs are done, nothing to train"
            )
            try:
                loop.run(display)
            except KeyboardInterrupt:
                done, known = schedule.counts()
                display.line(f"stopped: {done} of {known} runs are done and kept")
                raise
            finally:
                pool.close()
        page = _report(folder, console, changed=loop.jobs > 0) if report else None
    return SweepResult(folder, loop.jobs, page)


def _report(folder: Path, console: Console, *, changed: bool) -> Path:
    page = folder / "report.html"
    if page.exists() and not changed:
        return page
    from mixlab.report import build_report

    console.print("writing the report ...")
    return build_report(folder)


def summary(result: SweepResult) -> str:
    """The answer in words, where the report gives one, and the path of the page."""
    if result.report is None:
        return f"Study: {result.folder}"
    words = answer_words(result.report)
    return "\n".join([*words, "", f"Report: {result.report}", f"Study: {result.folder}"])
