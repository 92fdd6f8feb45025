"""Independent jobs over threads, each on one core."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager

import torch

from mixlab.spec import MixlabError

Job = tuple[int, Callable[[], None]]

_lock = threading.Lock()
_here = threading.local()
# Blocks of `one_core_each` that are open, and torch's number of threads outside of them.
_inside, _outside = 0, 1


def thread_count(threads: int | None) -> int:
    """`threads`, or one for each core that the process may use.

    Raises:
        MixlabError: fewer than one.
    """
    if threads is None:
        available = getattr(os, "sched_getaffinity", None)
        return len(available(0)) if available is not None else os.cpu_count() or 1
    if threads < 1:
        raise MixlabError(f"threads is {threads}; expected 1 or more")
    return threads


def run_jobs(jobs: Sequence[Job], threads: int, done: Callable[[int], None]) -> None:
    """Run all jobs, the largest first; the first error stops the rest and is raised.

    Args:
        jobs: (size, what to do); the size orders them and is told to `done`.
        threads: how many at once; each has one intra-op thread, so that no sum depends on it.
        done: called in this thread with the size of every job that ended.
    """
    order = sorted(range(len(jobs)), key=lambda index: -jobs[index][0])
    with one_core_each():
        if threads == 1 or len(jobs) < 2:
            for index in order:
                jobs[index][1]()
                done(jobs[index][0])
            return
        with ThreadPoolExecutor(min(threads, len(jobs)), initializer=use_one_core) as pool:
            sizes = {pool.submit(jobs[index][1]): jobs[index][0] for index in order}
            try:
                for future in as_completed(sizes):
                    future.result()
                    done(sizes[future])
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


@contextmanager
def one_core_each() -> Iterator[None]:
    """torch's intra-op threads set to one inside, restored after; from several threads at once too.

    A thread of torch begins with what any thread set last. One that begins inside another's block
    finds one, and must not take that for its own number, nor leave it behind.
    """
    global _inside, _outside
    before = torch.get_num_threads()
    nested = getattr(_here, "inside", False)
    with _lock:
        if not _inside:
            _outside = before
        elif before == 1:
            before = _outside
        _inside += 1
        _here.inside = True
        use_one_core()
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not nested:
                _here.inside = False
                torch.set_num_threads(before)


def use_one_core() -> None:
    """Say so in a new thread, where another may have changed what threads begin with."""
    torch.set_num_threads(1)
