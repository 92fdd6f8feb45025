"""What a merge will cost: bytes read and written, memory, disk and time, from its plan."""

from __future__ import annotations

from dataclasses import dataclass

from mixlab.merge._plan import MergePlan
from mixlab.merge.running._jobs import Task, make_task
from mixlab.merge.running._memory import BUDGET
from mixlab.store import readable

# Assumed rates, in bytes a second. Disk: a solid-state disk, reading and writing. Fast: fused
# passes, per thread, of input. Plain: formulas without a fast path, per thread.
DISK_RATE, FAST_RATE, PLAIN_RATE = 1.0e9, 1.0e9, 0.1e9
# The process with torch, and what each thread holds of the tensors that it streams.
_START, _THREAD = 300_000_000, 64 << 20


@dataclass(frozen=True)
class MergeCost:
    """Estimates of a merge.

    Args:
        read, written: bytes of weights; `written` is the disk space that the output needs.
        memory: bytes at the peak, at most, about.
        seconds: about, at `DISK_RATE`, `FAST_RATE` and `PLAIN_RATE`, whichever takes longer.
        threads: that were assumed.
    """

    read: int
    written: int
    memory: int
    seconds: float
    threads: int

    def sentence(self) -> str:
        """For people."""
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        return (
            f"reads {readable(self.read)}, writes {readable(self.written)} (needed on the disk of "
            f"the output), takes up to {readable(self.memory)} of memory and "
            f"{_time(self.seconds)} with {threads} (assumed: "
            f"{readable(DISK_RATE)} a second of disk, {readable(FAST_RATE)} a second and thread of "
            f"merging, {readable(PLAIN_RATE)} where a method has no fast path)"
        )


def plan_cost(plan: MergePlan, *, threads: int = 2) -> MergeCost:
    """Estimate what `execute` will take.

    Raises:
        MixlabError: the plan cannot be carried out.
    """
    tasks = [make_task(plan, tensor) for tensor in plan.written]
    read = sum(_read(task) for task in tasks)
    written = sum(task.elements * task.item for task in tasks)
    whole = sorted((task.memory for task in tasks), reverse=True)
    largest = whole[0] if whole else 0
    # Whole tensors side by side share a budget, but for one that is larger alone.
    memory = max(largest, min(BUDGET, sum(whole[:threads])))
    mixed = [task for task in tasks if task.method is not None]
    fast = sum(_read(task) for task in mixed if task.kernel)
    plain = sum(_read(task) for task in mixed if not task.kernel)
    compute = (fast / FAST_RATE + plain / PLAIN_RATE) / threads
    return MergeCost(
        read=read,
        written=written,
        memory=_START + threads * _THREAD + memory,
        seconds=max((read + written) / DISK_RATE, compute),
        threads=threads,
    )


def _read(task: Task) -> int:
    return sum(slot.used * slot.item for slot in task.slots)


def _time(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
