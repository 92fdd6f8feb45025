"""Which job comes next: a small state machine over markers on disk and trials in the journal."""

import heapq
import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

from mixlab.store import Tables, digest
from mixlab.study.jobs import CONFIRM, FIT, SCORE, Job
from mixlab.study.recipes import Arm
from mixlab.study.trials import TrialBook
from mixlab.study.worker import marker

_FIRST, _TRIAL, _BESIDE, _LATER = range(4)


def run_digest(identity: dict[str, Any], arm: Arm, seed: int) -> str:
    """Name of a run: all that decides its weights."""
    return digest({"start": identity["weights"], "recipe": arm.settings, "seed": seed})


class Schedule:
    """Jobs of a study in the order of their use, each once.

    Trials of a generation wait for the earlier ones, and the confirmation of trials waits for all
    of them; fits that nothing waits for and the other confirmations fill the gaps.
    """

    def __init__(
        self,
        study: Path,
        identity: dict[str, Any],
        book: TrialBook,
        fixed: list[Arm],
        untrained: list[str],
    ) -> None:
        self._study = study
        self._tables = Tables(study / "tables")
        self._identity = identity
        self._book = book
        self._heap: list[tuple[int, int, Job]] = []
        self._order = itertools.count()
        self._jobs: dict[str, Job] = {}
        self._info: dict[str, dict[str, Any]] = {}
        self._confirmed: set[int] = set()
        trials = {arm.recipe for arm in book.arms}
        # First, because scoring the reference finds out whether the pair fits.
        # The start answers text alike: behind the fits it finds the reference's cached answers.
        for index, name in enumerate(untrained):
            self._add(_LATER if index else _FIRST, Job(name, SCORE, name, name))
        for arm in fixed:
            urgent = arm.recipe in trials
            for job in self._fits(arm):
                self._add(_FIRST if urgent else _BESIDE, job)
        for arm in fixed:
            for job in self._confirms(arm):
                self._add(_LATER, job)
        for arm in book.arms:
            for job in self._fits(arm):
                self._add(_TRIAL, job)
        self.advance()

    def _run(self, arm: Arm, seed: int, stage: str) -> Job:
        return Job(
            run_digest(self._identity, arm, seed),
            stage,
            arm.label,
            arm.kind,
            arm.recipe,
            arm.settings,
            seed,
            arm.trial,
        )

    def _fits(self, arm: Arm) -> list[Job]:
        return [self._run(arm, seed, FIT) for seed in arm.seeds]

    def _confirms(self, arm: Arm) -> list[Job]:
        return [self._run(arm, seed, CONFIRM) for seed in arm.seeds]

    def _add(self, priority: int, job: Job) -> None:
        if job.key in self._jobs:
            return
        self._jobs[job.key] = job
        done = marker(self._study, job)
        if done.done:
            info = done.info()
            if all(self._tables.has(table, job.key) for table in info["tables"]):
                self._info[job.key] = info
                return
        heapq.heappush(self._heap, (priority, next(self._order), job))

    def _objectives(self, job: Job) -> dict[str, float] | None:
        info = self._info.get(job.key)
        if info is None:
            return None
        return {k: math.nan if v is None else v for k, v in info["objectives"].items()}

    def advance(self) -> None:
        """Tell ended trials, ask for what can be asked."""
        while True:
            told = 0
            for arm in self._book.open():
                replicates = [self._objectives(job) for job in self._fits(arm)]
                known = [one for one in replicates if one is not None]
                if len(known) == len(replicates):
                    self._book.tell(arm.trial, known)
                    told += 1
            asked = self._book.ask()
            for arm in asked:
                for job in self._fits(arm):
                    self._add(_TRIAL, job)
            if not told and not asked:
                break
        if not self._book.open() and len(self._book.arms) == self._book.total:
            for arm in self._book.to_confirm():
                if arm.trial not in self._confirmed:
                    self._confirmed.add(arm.trial)
                    for job in self._confirms(arm):
                        self._add(_LATER, job)

    def next(self) -> Job | None:
        """The next job that can start now, or None."""
        waiting = []
        found = None
        while self._heap:
            entry = heapq.heappop(self._heap)
            job = entry[2]
            if job.stage == CONFIRM and f"{job.run}-{FIT}" not in self._info:
                waiting.append(entry)
                continue
            found = job
            break
        for entry in waiting:
            heapq.heappush(self._heap, entry)
        return found

    def again(self, job: Job) -> None:
        """Put a job back whose worker died."""
        heapq.heappush(self._heap, (_FIRST, next(self._order), job))

    def done(self, job: Job, info: dict[str, Any]) -> None:
        """`job` is done."""
        self._info[job.key] = info

    @property
    def finished(self) -> bool:
        """Whether every job is done, and no trial is still to come."""
        return len(self._info) == len(self._jobs) and len(self._book.arms) == self._book.total

    def remaining(self) -> dict[str, int]:
        """Jobs that are left, by stage, those of trials to come included."""
        left = Counter(job.stage for key, job in self._jobs.items() if key not in self._info)
        left[FIT] += self._book.total - len(self._book.arms)
        return dict(left)

    def counts(self) -> tuple[int, int]:
        """Runs done, and runs in all (trials to come counted as one each)."""
        fits = [key for key, job in self._jobs.items() if job.stage == FIT]
        to_come = self._book.total - len(self._book.arms)
        return sum(key in self._info for key in fits), len(fits) + to_come
