"""One thread's work: read, look, mix, look again, write; buffers are made once."""

from __future__ import annotations

import numpy as np
import torch

from mixlab.merge._threads import use_one_core
from mixlab.merge.running._jobs import Job, Slot, Task
from mixlab.merge.running._marks import Marks, Shared
from mixlab.merge.running._mixing import CHANGED_PART, count_changed, keep_into, mix_into

# Parts of a streamed tensor are multiples of this many elements; no bit depends on it.
GRAIN = 4096
_CHUNK = 8 << 20


class Worker:
    """Works on one job at a time; each thread has its own."""

    def __init__(self, shared: Shared) -> None:
        use_one_core()
        self._shared = shared
        self._buffers: list[np.ndarray] = []
        self._differ = np.empty(CHANGED_PART, dtype=bool)

    def __call__(self, job: Job) -> None:
        """Do a job.

        Raises:
            MixlabError: an input cannot be read or mixed, or a value is not finite.
            Stopped: the merge is to end.
        """
        marks = Marks(self._shared, job)
        notes: list[str] = []
        with torch.no_grad():
            if job.task.mode == "whole":
                self._whole(job.task, marks, notes)
            else:
                self._stream(job, marks, notes)
        self._shared.ledger.noted(job.task.plan.name, notes)

    def _stream(self, job: Job, marks: Marks, notes: list[str]) -> None:
        shared, task = self._shared, job.task
        widest = max(task.item, *(slot.item for slot in task.slots))
        step = max(GRAIN, shared.part_bytes // widest // GRAIN * GRAIN)
        at = job.start
        while at < job.stop:
            shared.check()
            mixing = at < task.mixed
            stop = min(at + step, job.stop, task.mixed if mixing else job.stop)
            raws = [
                self._part(index, slot, at, min(stop, slot.used), step * widest, marks)
                for index, slot in enumerate(task.slots)
            ]
            out = raws[0]
            if task.mode != "copy":
                out = self._buffer(len(raws), step * widest)[: (stop - at) * task.item]
                if mixing and task.method is not None:
                    mix_into(shared.plan, task, raws, out, (stop - at,), at, notes)
                else:
                    kept = 0 if mixing else task.target
                    assert kept is not None
                    keep_into(task, kept, raws[kept], out)
            self._write(task, out, at * task.item, marks)
            if mixing and task.compared:
                self._compare(task, raws, out)
            at = stop

    def _whole(self, task: Task, marks: Marks, notes: list[str]) -> None:
        shared, plan = self._shared, task.plan
        lent: list[np.ndarray] = []
        try:
            raws = [self._all(index, slot, marks, lent) for index, slot in enumerate(task.slots)]
            out = shared.memory.take(task.elements * task.item)
            lent.append(out)
            picked = plan.picked
            if picked is None:
                middle = out[: task.mixed * task.item]
                mixed = [
                    raw[: task.mixed * slot.item]
                    for raw, slot in zip(raws, task.slots, strict=True)
                ]
                count = plan.shape[:1] if plan.rows is None else (plan.rows,)
            else:
                middle = shared.memory.take(task.mixed * task.item)
                lent.append(middle)
                mixed = [
                    _by_row(raw, slot.shape[0])[picked.of.get(slot.model, picked.rows)].reshape(-1)
                    for raw, slot in zip(raws, task.slots, strict=True)
                ]
                count = (len(picked.rows),)
            if task.method is not None:
                mix_into(shared.plan, task, mixed, middle, (*count, *plan.shape[1:]), 0, notes)
            elif task.mixed:
                keep_into(task, 0, mixed[0], middle)
            if task.mixed < task.elements:
                assert task.target is not None
                begin = 0 if picked is not None else mixed[task.target].size
                keep_into(
                    task, task.target, raws[task.target][begin:], out[middle.size if begin else 0 :]
                )
            if picked is not None:
                _by_row(out, plan.shape[0])[picked.rows] = _by_row(middle, len(picked.rows))
            for begin in range(0, out.size, _CHUNK):
                shared.check()
                self._write(task, out[begin : begin + _CHUNK], begin, marks)
            if task.compared:
                self._compare(task, mixed, middle)
        finally:
            shared.memory.give(lent)

    def _part(
        self, index: int, slot: Slot, start: int, stop: int, size: int, marks: Marks
    ) -> np.ndarray:
        """Elements `start` to `stop` of an input, in this thread's buffer of `size` bytes."""
        raw = self._buffer(index, size)[: max(0, stop - start) * slot.item]
        self._read(index, slot, raw, start * slot.item, marks)
        return raw

    def _all(self, index: int, slot: Slot, marks: Marks, lent: list[np.ndarray]) -> np.ndarray:
        """All used elements of an input, in a buffer that is added to `lent`."""
        shared, size = self._shared, slot.used * slot.item
        source = shared.plan.sources[slot.model]
        streams = source.streams(slot.name)
        if streams:
            raw = shared.memory.take(size)
            lent.append(raw)
        else:
            tensor = source.read(slot.name).contiguous().view(-1)
            raw = tensor.view(torch.uint8).numpy()[:size]
        for begin in range(0, size, _CHUNK):
            shared.check()
            part = raw[begin : begin + _CHUNK]
            if streams:
                self._read(index, slot, part, begin, marks)
            else:
                marks.read(index, part, begin)
                shared.ledger.advance(part.size, slot.name)
        return raw

    def _read(self, index: int, slot: Slot, raw: np.ndarray, start: int, marks: Marks) -> None:
        if raw.size:
            self._shared.plan.sources[slot.model].read_into(slot.name, raw.data, start)
            marks.read(index, raw, start)
            self._shared.ledger.advance(raw.size, slot.name)

    def _write(self, task: Task, raw: np.ndarray, start: int, marks: Marks) -> None:
        marks.wrote(raw, start)
        self._shared.writer.write(task.plan.name, start, raw.data)
        self._shared.ledger.advance(raw.size, task.plan.name)

    def _compare(self, task: Task, raws: list[np.ndarray], out: np.ndarray) -> None:
        assert task.target is not None
        changed = count_changed(task, raws[task.target], out, self._differ)
        self._shared.ledger.differs(changed, out.size // task.item)

    def _buffer(self, index: int, size: int) -> np.ndarray:
        while len(self._buffers) <= index:
            self._buffers.append(np.empty(0, dtype=np.uint8))
        if self._buffers[index].size < size:
            self._buffers[index] = np.empty(size, dtype=np.uint8)
        return self._buffers[index]


def _by_row(raw: np.ndarray, rows: int) -> np.ndarray:
    """Bytes of a table as one line a row, a view."""
    return raw.reshape(rows, -1)
