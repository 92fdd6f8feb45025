"""The plan cut into jobs for threads: parts of streamed tensors, and whole tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mixlab.checkpoint import TensorSource, item_size, tensor_size
from mixlab.merge._method import MergeMethod, get_method
from mixlab.merge._plan import Input, MergePlan, TensorPlan
from mixlab.merge.running._finite import is_floating
from mixlab.spec import MixlabError

# Elements of a job. A multiple of the segments that digests are made of, in every dtype.
PIECE = 1 << 23
Mode = Literal["copy", "stream", "whole"]


@dataclass(frozen=True)
class Slot:
    """One input tensor that a task reads, once, whatever it is used for.

    Args:
        item: bytes of an element (1 where only bytes are copied).
        elements: how many the tensor has.
        used: how many of them, from the first on, the task reads.
    """

    model: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    item: int
    elements: int
    used: int


@dataclass(frozen=True)
class Task:
    """How one tensor of the output is made.

    Args:
        slots: distinct inputs; `inputs`, `base`, `extras` and `target` index them.
        mixed: how many elements are mixed, from the first on or those of the plan's picked rows;
            the rest is the target's. Without a method they are the first slot's.
        compared: whether it is counted how many elements differ from the target's.
    """

    plan: TensorPlan
    mode: Mode
    slots: tuple[Slot, ...]
    inputs: tuple[int, ...]
    base: int | None
    extras: tuple[int, ...]
    target: int | None
    item: int
    elements: int
    mixed: int
    compared: bool
    method: MergeMethod | None
    kernel: bool

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        read = sum(slot.used * slot.item for slot in self.slots)
        return read + self.elements * self.item

    @property
    def memory(self) -> int:
        """Bytes that a whole tensor needs at once, scratch of the method included."""
        if self.mode != "whole":
            return 0
        scratch = len(self.inputs) + (0 if self.kernel else 3)
        gathered = 0
        if self.plan.picked is not None:
            gathered = self.mixed * (self.item + sum(slot.item for slot in self.slots))
        return self.bytes + gathered + 4 * self.mixed * scratch


@dataclass(frozen=True)
class Job:
    """Elements `start` to `stop` of a task."""

    task: Task
    start: int
    stop: int


def make_task(plan: MergePlan, tensor: TensorPlan) -> Task:
    """Decide how a tensor is made.

    Raises:
        MixlabError: a kept tensor without a target, an input of another shape, or a dtype that
            cannot be written as the output's.
    """
    if tensor.action == "keep" and tensor.target is not None:
        _check_shape(tensor, tensor.target)
        if tensor.rest is not None:
            return _stitch(plan.sources, tensor, tensor.target, tensor.rest)
        if tensor.target.entry.dtype == tensor.dtype:
            if plan.sources[tensor.target.model].streams(tensor.target.entry.name):
                return _copy(tensor, tensor.target)
        elif not (is_floating(tensor.dtype) and is_floating(tensor.target.entry.dtype)):
            raise MixlabError(
                f"{tensor.name}: {tensor.target.entry.dtype} cannot be written as {tensor.dtype}; "
                "only floating tensors change their dtype"
            )
    if tensor.action != "mix" and tensor.target is None:
        raise MixlabError(f"{tensor.name}: is to be kept, but the plan does not say what")
    return _mix(plan.sources, tensor)


def _copy(tensor: TensorPlan, target: Input) -> Task:
    held = tensor_size(target.entry.dtype, target.entry.shape)
    size = tensor_size(tensor.dtype, tensor.shape)
    slot = Slot(target.model, target.entry.name, tensor.dtype, target.entry.shape, 1, held, size)
    return Task(tensor, "copy", (slot,), (), None, (), 0, 1, size, 0, False, None, False)


def _stitch(sources: Sequence[TensorSource], tensor: TensorPlan, one: Input, rest: Input) -> Task:
    """The first rows of one tensor, the others of another."""
    assert tensor.rows is not None
    _check_shape(replace(tensor, rows=None), rest)
    elements, inner = math.prod(tensor.shape), math.prod(tensor.shape[1:])
    slots = tuple(
        Slot(at.model, at.entry.name, at.entry.dtype, at.entry.shape, item_size(at.entry.dtype),
             math.prod(at.entry.shape), used)
        for at, used in ((one, tensor.rows * inner), (rest, elements))
    )  # fmt: skip
    streams = all(sources[slot.model].streams(slot.name) for slot in slots)
    return Task(
        tensor, "stream" if streams else "whole", slots, (), None, (), 1, item_size(tensor.dtype),
        elements, tensor.rows * inner, False, None, False,
    )  # fmt: skip


def _mix(sources: Sequence[TensorSource], tensor: TensorPlan) -> Task:
    mixing = tensor.action == "mix"
    elements = math.prod(tensor.shape)
    mixed = elements if mixing else 0
    if mixing and tensor.rows is not None:
        mixed = min(tensor.rows, tensor.shape[0]) * math.prod(tensor.shape[1:])
    elif mixing and tensor.picked is not None:
        mixed = len(tensor.picked.rows) * math.prod(tensor.shape[1:])
    mixes = (*tensor.inputs, *([tensor.base] if tensor.base else []), *tensor.extras)
    everything = [*(mixes if mixing else ()), *([tensor.target] if tensor.target else [])]
    # The target is read for itself only where something of it is written.
    keys = {(i.model, i.entry.name): i for i in (everything if mixed < elements else mixes)}
    index = {key: at for at, key in enumerate(keys)}
    target = index.get((tensor.target.model, tensor.target.entry.name)) if tensor.target else None
    for one in mixes if mixing else ():
        _check_shape(tensor, one)
    slots = []
    for at, (key, one) in enumerate(keys.items()):
        size = math.prod(one.entry.shape)
        used = elements if at == target else mixed
        if tensor.picked is not None:
            used = size
        if size < used:
            raise MixlabError(
                f"{tensor.name}: {one.entry.name} has shape {list(one.entry.shape)}, but "
                f"{used} elements of it are needed"
            )
        slots.append(
            Slot(*key, one.entry.dtype, one.entry.shape, item_size(one.entry.dtype), size, used)
        )
    method = get_method(tensor.method) if mixing else None
    kernel = None if method is None else method.kernel
    mixing_slots = [index[i.model, i.entry.name] for i in mixes] if mixing else []
    fast = (
        kernel is not None
        and not tensor.extras
        and all(slots[at].dtype in ("F32", "F16", "BF16") for at in mixing_slots)
    )
    parts = all(sources[slot.model].streams(slot.name) for slot in slots)
    parts = parts and tensor.picked is None
    streams = parts and (not mixing or (fast and kernel is not None and kernel[1] == "element"))
    count = len(tensor.inputs)
    return Task(
        plan=tensor,
        mode="stream" if streams else "whole",
        slots=tuple(slots),
        inputs=tuple(mixing_slots[:count]),
        base=mixing_slots[count] if mixing and tensor.base else None,
        extras=tuple(mixing_slots[len(mixing_slots) - len(tensor.extras) :]) if mixing else (),
        target=target,
        item=item_size(tensor.dtype),
        elements=elements,
        mixed=mixed,
        compared=mixing and target is not None and slots[target].elements == elements,
        method=method,
        kernel=fast,
    )


def spread(tasks: Sequence[Task], file_of: Mapping[str, str]) -> list[Job]:
    """All jobs, ordered so that threads write into several files side by side.

    A file takes one write at a time. Within each file the order stays that of `tasks`.

    Args:
        file_of: tensor of the output -> file that it is written to.
    """
    by_file: dict[str, list[Job]] = {}
    for task in tasks:
        by_file.setdefault(file_of.get(task.plan.name, ""), []).extend(cut(task))
    placed = [
        (place / len(jobs), index, job)
        for index, jobs in enumerate(by_file.values())
        for place, job in enumerate(jobs)
    ]
    return [job for _, _, job in sorted(placed, key=lambda one: one[:2])]


def _check_shape(tensor: TensorPlan, one: Input) -> None:
    found, wanted = one.entry.shape, tensor.shape
    if tensor.picked is not None:
        rows = tensor.picked.of.get(one.model, tensor.picked.rows)
        within = bool(found) and not (rows.size and int(rows.max()) >= found[0])
        fits = found[1:] == wanted[1:] and within
    elif tensor.rows is None:
        fits = found == wanted
    else:
        fits = found[1:] == wanted[1:] and bool(found) and found[0] >= tensor.rows
    if not fits:
        told = "" if tensor.rows is None else f", of which {tensor.rows} rows are mixed"
        raise MixlabError(
            f"{tensor.name}: {one.entry.name} of model {one.model} has shape {list(found)}; "
            f"expected {list(wanted)}{told}"
        )


def cut(task: Task) -> list[Job]:
    """The jobs of a task: one, or one for every PIECE elements where it streams."""
    if task.mode == "whole" or task.elements <= PIECE:
        return [Job(task, 0, task.elements)]
    starts = range(0, task.elements, PIECE)
    return [Job(task, at, min(at + PIECE, task.elements)) for at in starts]
