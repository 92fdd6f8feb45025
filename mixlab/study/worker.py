"""A worker process: reads jobs, does them, writes their rows, says how it goes."""

import ctypes
import fcntl
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from mixlab import MixlabError
from mixlab.store import RunFolder, Tables
from mixlab.study.jobs import FIT, Executor, Job, Outcome

_PR_SET_PDEATHSIG = 1
_QUIET_SECONDS = 0.2


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, kill -9 included (Linux).

    Elsewhere the end of standard input ends the worker after its job.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ.get("MIXLAB_PARENT", os.getppid())):
        os._exit(1)  # the parent died before prctl


def marker(study: Path, job: Job) -> RunFolder:
    """The folder whose marker says that `job` is done."""
    if job.stage == FIT:
        return RunFolder(study / "runs", job.run)
    return RunFolder(study / "runs" / job.run, job.stage)


def make_executor(description: dict[str, Any]) -> Executor:
    """The executor that `module:function` makes from its arguments."""
    module, _, function = description["make"].partition(":")
    made: Executor = getattr(importlib.import_module(module), function)(**description["arguments"])
    return made


def perform(job: Job, executor: Executor, study: Path, progress: Any) -> dict[str, Any]:
    """Do `job`, write its rows, then its marker; the marker's content.

    Rows come first: a marker promises them. A job that was interrupted between two tables writes
    the missing ones (the same key is never written twice).
    """
    began = time.monotonic()
    run = marker(study, job)
    folder = RunFolder(study / "runs", job.run).open()
    run.open()
    outcome: Outcome = executor.execute(job, folder, progress)
    tables = Tables(study / "tables")
    for name, frame in outcome.tables.items():
        tables.append(name, frame, job.key)
    info = {
        "arm": job.arm,
        "kind": job.kind,
        "seed": job.seed,
        "trial": job.trial,
        # NaN is no JSON; the coordinator reads null as a failed trial.
        "objectives": {k: v if v == v else None for k, v in outcome.objectives.items()},
        "tables": sorted(outcome.tables),
        "seconds": round(time.monotonic() - began, 3),
        **outcome.facts,
    }
    run.finish(info)
    return info


class Channel:
    """Lines of JSON to the coordinator."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = 0.0

    def say(self, kind: str, **body: Any) -> None:
        """Send one line."""
        self._stream.write(json.dumps({"kind": kind, **body}) + "\n")
        self._stream.flush()

    def progress(self, **body: Any) -> None:
        """Forward a step, at most a few a second."""
        now = time.monotonic()
        if now - self._last >= _QUIET_SECONDS:
            self._last = now
            self.say("progress", **body)


def main() -> None:
    """Serve jobs from standard input until it ends."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides
    channel = Channel(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)  # a library's prints go to the log, not into the channel
    hello = json.loads(sys.stdin.readline())
    study = Path(hello["study"])
    # Held, shared, until this process is gone: a new coordinator waits for it.
    presence = os.open(study / ".workers", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(presence, fcntl.LOCK_SH)
    executor: Executor | None = None
    for line in sys.stdin:
        job = Job(**json.loads(line)["job"])
        try:
            if executor is None:
                executor = make_executor(hello["executor"])
            info = perform(job, executor, study, channel.progress)
        except MixlabError as error:
            channel.say("failed", message=str(error))
        except Exception as error:
            traceback.print_exc()
            sys.stderr.flush()
            channel.say("failed", message=f"{type(error).__name__}: {error}", unexpected=True)
        else:
            channel.say("done", info=info)
