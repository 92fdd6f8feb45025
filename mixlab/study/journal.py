"""Optuna's journal, made safe against kill -9.

Two things in Optuna's file backend outlive a killed writer: its lock (a symbolic link that stays
behind for a grace period of 30 s) and a last line without its end (which makes every later read
fail). The lock here is flock, which the kernel lets go of, and a torn last line is cut off before
the journal is opened: what it would have said did not happen.
"""

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from mixlab import MixlabError
from mixlab.store import disk_errors

Goal = Literal["maximize", "minimize"]


class FlockLock:
    """An exclusive flock on `<journal>.flock`, held from `acquire` to `release`."""

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(journal.name + ".flock")
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX)
        self._handle = handle
        return True

    def release(self) -> None:
        """Let go of it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class _Backend(JournalFileBackend):
    def __init__(self, path: Path) -> None:
        self._journal = path
        super().__init__(str(path), lock_obj=FlockLock(path))  # type: ignore[arg-type]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with disk_errors(self._journal):
            super().append_logs(logs)


def repair(path: Path) -> int:
    """Cut a torn last line off; the number of bytes removed.

    Raises:
        MixlabError: a line before the last is damaged (no crash does that).
    """
    if not path.exists():
        return 0
    lock = FlockLock(path)
    lock.acquire()
    try:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        for index, line in enumerate(lines):
            try:
                json.loads(line)
            except ValueError:
                if index < len(lines) - 1:
                    raise MixlabError(
                        f"{path}:{index + 1}: this line is damaged, which no interruption does. "
                        "Restore the file, or start anew with --new."
                    ) from None
                whole = whole[: len(whole) - len(line) - 1]
        removed = len(content) - len(whole)
        if removed:
            with path.open("rb+") as handle:
                handle.truncate(len(whole))
                os.fsync(handle.fileno())
        return removed
    finally:
        lock.release()


def open_study(path: Path, name: str, directions: Sequence[Goal]) -> optuna.Study:
    """The study in the journal at `path`, made if need be.

    Raises:
        MixlabError: the journal is damaged, or holds a study with other goals.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    repair(path)
    storage = JournalStorage(_Backend(path))
    study = optuna.create_study(
        storage=storage, study_name=name, directions=list(directions), load_if_exists=True
    )
    # Optuna loads a study whose directions differ without a word.
    held = [direction.name.lower() for direction in study.directions]
    if held != list(directions):
        raise MixlabError(
            f"{path} holds a study with the goals {held}, the sweep asks for {list(directions)}. "
            "Start anew with --new."
        )
    return study
