"""Worker processes: one job each at a time, messages as lines of JSON.

Plain subprocesses rather than multiprocessing, so that the environment (thread counts) is set
before torch is imported, and so that a library's prints cannot reach the channel. A worker dies
with its parent, however that dies.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.study.jobs import Job

_THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    job: Job | None = None
    buffer: bytes = b""


@dataclass(frozen=True)
class Message:
    """What a worker said: `progress`, `done`, `failed` (a mistake with its text) or `died`."""

    kind: str
    job: Job
    body: dict[str, Any]


class Pool:
    """Up to `size` workers, started when first needed.

    Args:
        executor: how workers make their executor: `module:function` and its JSON arguments.
    """

    def __init__(self, size: int, study: Path, executor: dict[str, Any], threads: int) -> None:
        self._size = size
        self._study = study
        self._executor = executor
        self._threads = threads
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    def _start(self) -> _Worker:
        environment = dict(os.environ) | {name: str(self._threads) for name in _THREADS}
        environment |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONHASHSEED": "0"}
        environment["MIXLAB_PARENT"] = str(os.getpid())
        logs = self._study / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / f"worker-{len(self._workers)}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", "from mixlab.study.worker import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        worker = _Worker(process)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        self._send(worker, {"study": str(self._study), "executor": self._executor})
        return worker

    @staticmethod
    def _send(worker: _Worker, message: dict[str, Any]) -> None:
        assert worker.process.stdin is not None
        try:
            worker.process.stdin.write(json.dumps(message).encode() + b"\n")
            worker.process.stdin.flush()
        except BrokenPipeError:
            pass  # its death is reported by the read side

    @property
    def free(self) -> int:
        """Workers that could take a job now."""
        return self._size - sum(worker.job is not None for worker in self._workers)

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        return any(worker.job is not None for worker in self._workers)

    def submit(self, job: Job) -> None:
        """Hand a job to a free worker."""
        idle = [worker for worker in self._workers if worker.job is None]
        worker = idle[0] if idle else self._start()
        worker.job = job
        self._send(worker, {"job": job.as_dict()})

    def messages(self, timeout: float) -> Iterator[Message]:
        """What workers said within `timeout` seconds."""
        for key, _ in self._selector.select(timeout):
            worker: _Worker = key.data
            data = os.read(key.fd, 1 << 20)
            if not data:
                yield from self._bury(worker)
                continue
            *lines, worker.buffer = (worker.buffer + data).split(b"\n")
            for line in lines:
                body = json.loads(line)
                job, kind = worker.job, body.pop("kind")
                if job is None:
                    continue
                if kind != "progress":
                    worker.job = None
                yield Message(kind, job, body)

    def _bury(self, worker: _Worker) -> Iterator[Message]:
        assert worker.process.stdout is not None
        self._selector.unregister(worker.process.stdout)
        self._workers.remove(worker)
        code = worker.process.wait()
        if worker.job is not None:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            yield Message("died", worker.job, {"how": how})

    def close(self) -> None:
        """End all workers now; their runs go on from their last checkpoint next time."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
            for stream in (worker.process.stdin, worker.process.stdout):
                if stream is not None:
                    stream.close()
        self._workers.clear()
        self._selector.close()
