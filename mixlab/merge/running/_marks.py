"""What is seen of the bytes that pass: digests, and values that are not finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np

from mixlab.checkpoint import Checkpoint, SegmentDigest, item_size
from mixlab.merge._plan import MergePlan
from mixlab.merge.running._finite import all_finite, count_nonfinite, is_floating
from mixlab.merge.running._jobs import Job, Slot, Task
from mixlab.merge.running._ledger import Ledger
from mixlab.merge.running._memory import Memory
from mixlab.spec import MixlabError

_CHUNK = 8 << 20


class Writer(Protocol):
    """Where the output's bytes go."""

    def write(self, name: str, start: int, buffer: memoryview) -> None:
        """Write `buffer` at byte `start` of a tensor."""
        ...


class Digests:
    """Of one task: of each slot and of the output. Pieces of a tensor are whole segments."""

    def __init__(self, task: Task) -> None:
        self.inputs = [SegmentDigest(slot.elements * slot.item) for slot in task.slots]
        self.output = SegmentDigest(task.elements * task.item)

    def hand_over(self, task: Task, ledger: Ledger) -> None:
        """Tell the ledger the digests of all that passed in full."""
        for slot, digest in zip(task.slots, self.inputs, strict=True):
            if slot.used == slot.elements:
                ledger.inputs[slot.model, slot.name] = digest.finish()
        ledger.output[task.plan.name] = self.output.finish()


@dataclass(frozen=True)
class Shared:
    """What all workers of a merge have in common.

    Args:
        check: raises `Stopped` when the merge is to end.
        part_bytes: about how much of a streamed tensor is read at once.
        digests: by name of the output tensor; empty where none are wanted.
    """

    plan: MergePlan
    writer: Writer
    ledger: Ledger
    memory: Memory
    check: Callable[[], None]
    part_bytes: int
    allow_nonfinite: bool
    digests: Mapping[str, Digests]


class Marks:
    """Digests and non-finite values of one job's inputs and output."""

    def __init__(self, shared: Shared, job: Job) -> None:
        self._shared, self._task = shared, job.task
        self._digests = shared.digests[job.task.plan.name] if shared.digests else None

    def read(self, index: int, raw: np.ndarray, start: int) -> None:
        """A part of an input, from its byte `start` on, was read.

        Raises:
            MixlabError: it holds values that are not finite, and they are not allowed.
        """
        slot = self._task.slots[index]
        if self._digests is not None:
            self._digests.inputs[index].update(start, raw.data)
        if not is_floating(slot.dtype) or all_finite(raw, slot.dtype):
            return
        if not self._shared.allow_nonfinite:
            self._refuse(slot)
        counts = count_nonfinite(raw, slot.dtype)
        self._shared.ledger.found_nonfinite(slot.model, slot.name, start, counts)

    def wrote(self, raw: np.ndarray, start: int) -> None:
        """A part of the output, from its byte `start` on, is about to be written.

        Raises:
            MixlabError: as `read`.
        """
        plan = self._task.plan
        if self._digests is not None:
            self._digests.output.update(start, raw.data)
        if not is_floating(plan.dtype) or all_finite(raw, plan.dtype):
            return
        nan, infinite = count_nonfinite(raw, plan.dtype)
        self._shared.ledger.found_nonfinite(-1, plan.name, start, (nan, infinite))
        if not self._shared.allow_nonfinite:
            raise MixlabError(
                f"{plan.name}: merged by {plan.method or 'copying'} and rounded to {plan.dtype}, "
                f"{nan} values are NaN and {infinite} infinite from element "
                f"{start // item_size(plan.dtype)} on, though no input of it is. Change the "
                "settings or out_dtype, or accept such values with --allow-nonfinite "
                "(allow_nonfinite: true)"
            )

    def _refuse(self, slot: Slot) -> NoReturn:
        """Count over the whole tensor, then raise: the user wants to know how bad it is."""
        source, nan, infinite = self._shared.plan.sources[slot.model], 0, 0
        size = slot.elements * slot.item
        for begin in range(0, size if source.streams(slot.name) else 0, _CHUNK):
            raw = np.empty(min(_CHUNK, size - begin), dtype=np.uint8)
            source.read_into(slot.name, raw.data, begin)
            counts = count_nonfinite(raw, slot.dtype)
            nan, infinite = nan + counts[0], infinite + counts[1]
        found = f"{nan} NaN and {infinite} infinite values" if nan + infinite else "NaN or infinity"
        place, made = str(self._shared.plan.folders[slot.model]), "holds"
        adapter = getattr(source, "adapter", None)
        if adapter is not None and not source.streams(slot.name):
            place, made = f"{place} with the adapter {adapter}", "gets"
        elif isinstance(source, Checkpoint):
            place = str(source.file_of(slot.name))
        raise MixlabError(
            f"{place}: tensor {slot.name} {made} {found}; expected "
            "finite ones. Mend or download that checkpoint again, or accept such values with "
            "--allow-nonfinite (allow_nonfinite: true)"
        )
