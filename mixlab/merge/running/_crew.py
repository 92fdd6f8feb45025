"""Threads that work through jobs: large whole tensors first, the first error stops all."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from mixlab.merge.running._jobs import Job
from mixlab.merge.running._memory import Memory

Work = Callable[[Job], None]
_TICK_SECONDS = 0.1


class Stopped(Exception):
    """Raised inside a job when another has failed, or the user asked to stop."""


class Crew:
    """Runs jobs in threads.

    Args:
        jobs: taken in this order; but whole tensors first, largest first, as far as `memory`
            allows.
        memory: holds back a whole tensor until it fits.
    """

    def __init__(self, jobs: Sequence[Job], memory: Memory) -> None:
        whole = [job for job in jobs if job.task.mode == "whole"]
        self._whole = deque(sorted(whole, key=lambda job: -job.task.memory))
        self._parts = deque(job for job in jobs if job.task.mode != "whole")
        self._memory = memory
        self._change = threading.Condition()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._running = 0

    def check(self) -> None:
        """Called by jobs between parts.

        Raises:
            Stopped: the job should end now.
        """
        if self._stop.is_set():
            raise Stopped

    def run(self, make: Callable[[], Work], threads: int, tick: Callable[[], None]) -> None:
        """Work until all is done, or raise what the first failing job raised.

        Args:
            make: called in each thread, gives what works on a job there.
            tick: called in this thread every tenth of a second, for progress.
        """
        count = max(1, min(threads, len(self._whole) + len(self._parts)))
        self._running = count
        team = [threading.Thread(target=self._member, args=(make,)) for _ in range(count)]
        try:
            for one in team:
                one.start()
            while True:
                with self._change:
                    if self._change.wait_for(lambda: not self._running, _TICK_SECONDS):
                        break
                tick()
        except BaseException:
            self._halt()
            raise
        finally:
            self._wait_for(team)
        if self._error is not None:
            raise self._error
        tick()

    def _wait_for(self, team: Sequence[threading.Thread]) -> None:
        """Until all have ended, also when Ctrl-C is pressed again: what follows closes their files.

        A thread that writes on would else meet a closed file, or another one under its number.
        Not by `join`, which takes a thread for ended when it is interrupted.
        """
        again: KeyboardInterrupt | None = None
        started = sum(one.ident is not None for one in team)
        while len(team) - self._running < started:
            try:
                with self._change:
                    self._change.wait_for(lambda: len(team) - self._running >= started)
            except KeyboardInterrupt as error:
                again = error
        if again is not None:
            raise again
        for one in team:
            if one.ident is not None:
                one.join()

    def _member(self, make: Callable[[], Work]) -> None:
        try:
            work = make()
            while (job := self._next()) is not None:
                try:
                    work(job)
                finally:
                    self._memory.release(job.task.memory)
                    with self._change:
                        self._change.notify_all()
        except Stopped:
            pass
        except BaseException as error:
            with self._change:
                self._error = self._error or error
            self._halt()
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()

    def _next(self) -> Job | None:
        with self._change:
            while not self._stop.is_set():
                for index, job in enumerate(self._whole):
                    if self._memory.reserve(job.task.memory):
                        del self._whole[index]
                        return job
                    if self._parts:
                        break
                if self._parts:
                    return self._parts.popleft()
                if not self._whole:
                    return None
                self._change.wait()
        return None

    def _halt(self) -> None:
        self._stop.set()
        with self._change:
            self._change.notify_all()
