"""A plan carried out: streamed from the inputs into a folder that appears whole or not at all."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from mixlab.checkpoint import ShardWriter
from mixlab.merge._plan import MergePlan
from mixlab.merge._threads import one_core_each, thread_count
from mixlab.merge.planning._config import config_text
from mixlab.merge.running._card import write_card, write_marker
from mixlab.merge.running._crew import Crew
from mixlab.merge.running._jobs import Task, make_task, spread
from mixlab.merge.running._ledger import Ledger
from mixlab.merge.running._marks import Digests, Shared, Writer
from mixlab.merge.running._memory import Memory
from mixlab.merge.running._output import (
    check_out,
    check_room,
    check_unchanged,
    output_shards,
    untouched_shards,
)
from mixlab.merge.running._report import MergeReport, Progress
from mixlab.merge.running._summary import summarise
from mixlab.merge.running._worker import Worker
from mixlab.spec import MixlabError
from mixlab.store import atomic_folder, write_text

# Measured: with 2 MiB, what a thread works on stays in the cache; from 8 MiB on it does not.
PART_BYTES = 2 << 20


def execute(
    plan: MergePlan,
    out: str | Path,
    *,
    threads: int | None = None,
    max_shard_size: int | None = None,
    part_bytes: int = PART_BYTES,
    progress: Callable[[Progress], None] | None = None,
    allow_nonfinite: bool = False,
    link: bool = False,
    digests: bool = True,
) -> MergeReport:
    """Carry out a merge.

    Tensors of methods that work element by element pass in parts; others are read whole. The
    output's bits depend on plan and inputs alone, not on threads, parts or shards.

    Args:
        plan: from a recipe.
        out: a folder that does not exist, or is empty.
        threads: by default one a core, at most 8.
        max_shard_size: bytes of an output file at most; files as the target's where None.
        part_bytes: about how much of a tensor is read at once.
        progress: called about ten times a second from the calling thread.
        allow_nonfinite: count NaN and infinite values instead of stopping at the first.
        link: hard-link shards in which nothing changes, instead of copying them. A program that
            later writes into one of the two files then changes both.
        digests: compute digests of what is read and written, as it passes.

    Returns:
        What was done. `out` then holds weights, config, side files, card and marker.

    Raises:
        MixlabError: the output folder overlaps with an input or is not empty, the disk is full, an
            input changed or cannot be read, values are not finite, or a method refuses a tensor.
            Nothing is left at `out`.
    """
    out, began = Path(out), time.perf_counter()
    check_out(out, plan.folders)
    tasks = [make_task(plan, tensor) for tensor in plan.written]
    shards = output_shards(plan, max_shard_size)
    written = sum(task.elements * task.item for task in tasks)
    whole = untouched_shards(plan, shards)
    taken = {t.name for s in shards if s.file_name in whole for t in s.tensors}
    check_room(out, shards, whole, link=link)
    if not digests:  # else they are read, though not written
        tasks = [task for task in tasks if task.plan.name not in taken]
    with atomic_folder(out, replace=False) as folder:
        with ShardWriter(folder, shards) as writer:
            for name, path in whole.items():
                writer.link_or_copy(path, name, hard=link)
            ledger = Ledger(sum(task.bytes for task in tasks))
            run_tasks(
                plan,
                tasks,
                ledger,
                _Skipping(writer, taken),
                file_of={t.name: shard.file_name for shard in shards for t in shard.tensors},
                threads=thread_number(threads),
                part_bytes=part_bytes,
                progress=progress,
                allow_nonfinite=allow_nonfinite,
                digests=digests,
            )
            writer.finish()
        for source in plan.sources:
            check_unchanged(source)
        write_text(folder / "config.json", config_text(plan.config))
        for name, path in plan.side_files.items():
            _copy(path, folder / name)
        report = summarise(plan, out, ledger, list(whole), written, time.perf_counter() - began)
        write_card(folder, plan, report)
        write_marker(folder, plan, report)
        writer.check_in_place()
        check_out(out, plan.folders)
    return replace(report, seconds=time.perf_counter() - began)


def _copy(path: Path, to: Path) -> None:
    try:
        handle = path.open("rb")
    except OSError as error:
        raise MixlabError(
            f"{path} cannot be read: {error.strerror}; mend that or remove it"
        ) from None
    to.parent.mkdir(parents=True, exist_ok=True)
    with handle, to.open("wb") as copy:
        shutil.copyfileobj(handle, copy)


def run_tasks(
    plan: MergePlan,
    tasks: Sequence[Task],
    ledger: Ledger,
    writer: Writer,
    *,
    file_of: Mapping[str, str],
    threads: int,
    part_bytes: int,
    progress: Callable[[Progress], None] | None = None,
    allow_nonfinite: bool = False,
    digests: bool = True,
) -> None:
    """Make the tensors of a plan and hand their bytes to `writer`; see `execute`."""
    memory = Memory()
    crew = Crew(spread(tasks, file_of), memory)
    marks = {task.plan.name: Digests(task) for task in tasks} if digests else {}
    shared = Shared(plan, writer, ledger, memory, crew.check, part_bytes, allow_nonfinite, marks)
    began = time.perf_counter()

    def tick() -> None:
        if progress is not None:
            seconds = time.perf_counter() - began
            progress(Progress(ledger.done, ledger.total, seconds, ledger.current))

    with one_core_each():
        crew.run(lambda: Worker(shared), threads, tick)
    for task in tasks if digests else ():
        marks[task.plan.name].hand_over(task, ledger)


@dataclass(frozen=True)
class _Skipping:
    """A writer that leaves out tensors whose files were taken over whole."""

    writer: Writer
    taken: Set[str]

    def write(self, name: str, start: int, buffer: memoryview) -> None:
        if name not in self.taken:
            self.writer.write(name, start, buffer)


def thread_number(threads: int | None) -> int:
    """`threads`, or one a core, at most 8: beyond, the disk is the limit."""
    return min(thread_count(None), 8) if threads is None else thread_count(threads)
