"""From the bytes of a tensor's inputs to the bytes of the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mixlab.checkpoint import torch_dtype
from mixlab.merge._method import Context
from mixlab.merge._plan import MergePlan
from mixlab.merge.running._jobs import Task
from mixlab.spec import MixlabError

# Elements that are compared at once: both sides and the answer stay in the cache.
CHANGED_PART = 1 << 18
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def mix_into(
    plan: MergePlan,
    task: Task,
    raws: Sequence[np.ndarray],
    raw_out: np.ndarray,
    shape: tuple[int, ...],
    start: int,
    notes: list[str],
) -> None:
    """Mix elements from `start` on.

    Args:
        raws: uint8, the bytes of each slot's elements.
        raw_out: uint8, to be filled.
        shape: of the elements: the tensor's own, or flat where the kernel takes parts.
        notes: the method's notes are appended.

    Raises:
        MixlabError: the method refuses; the tensor is named.
    """
    tensor, method = task.plan, task.method
    assert method is not None
    out = torch.from_numpy(raw_out).view(torch_dtype(tensor.dtype)).view(shape)
    views = [
        torch.from_numpy(raw).view(torch_dtype(slot.dtype)).view(shape)
        for raw, slot in zip(raws, task.slots, strict=True)
    ]
    tensors = [views[index] for index in task.inputs]
    base = None if task.base is None else views[task.base]
    context = Context(
        name=tensor.name,
        models=tuple(plan.sources[one.model].key for one in tensor.inputs),
        seed=plan.seed,
        layer=tensor.layer,
        layers=tensor.layers,
        notes=notes,
    )
    try:
        if task.kernel and method.kernel is not None:
            method.kernel[0](tensors, base, out, tensor.settings, context, start)
            return
        result = method.apply(
            tensors,
            base,
            tensor.settings,
            context,
            extras=[views[index] for index in task.extras],
            dtype=out.dtype,
        )
    except MixlabError as error:
        if tensor.name in str(error):
            raise
        raise MixlabError(f"{tensor.name}: {error}") from error
    if result.dtype != out.dtype:
        raise MixlabError(f"{tensor.name}: {result.dtype} cannot be written as {out.dtype}")
    out.copy_(result)


def keep_into(task: Task, slot: int | None, raw: np.ndarray, raw_out: np.ndarray) -> None:
    """Write the values of one slot, rounded where the output has another dtype."""
    assert slot is not None
    dtype = task.slots[slot].dtype
    if dtype == task.plan.dtype:
        raw_out[:] = raw
        return
    out = torch.from_numpy(raw_out).view(torch_dtype(task.plan.dtype))
    out.copy_(torch.from_numpy(raw).view(torch_dtype(dtype)))


def count_changed(task: Task, raw: np.ndarray, out: np.ndarray, differ: np.ndarray) -> int:
    """How many elements of the output have other bits than the target's, in the output's dtype.

    Args:
        raw: uint8, the target's bytes.
        out: uint8, the output's.
        differ: bool, scratch of CHANGED_PART elements.
    """
    assert task.target is not None
    dtype = task.slots[task.target].dtype
    if dtype != task.plan.dtype:
        values = torch.from_numpy(raw).view(torch_dtype(dtype))
        raw = values.to(torch_dtype(task.plan.dtype)).view(torch.uint8).numpy()
    bits = _BITS[task.item]
    mine, theirs, changed = out.view(bits), raw.view(bits), 0
    for begin in range(0, mine.size, CHANGED_PART):
        one = mine[begin : begin + CHANGED_PART]
        answer = differ[: one.size]
        np.not_equal(one, theirs[begin : begin + CHANGED_PART], out=answer)
        changed += int(np.count_nonzero(answer))
    return changed
