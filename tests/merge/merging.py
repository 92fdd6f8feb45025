"""Merges of tiny models, for tests of what happens on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from mixlab.merge import Context, MergePlan, TensorPlan, get_method
from mixlab.merge._asked import Asked
from mixlab.merge._threads import one_core_each


def recipe_of(method: str, models: list[Any], **more: Any) -> dict[str, Any]:
    return {"method": method, "models": models, **more}


@contextmanager
def planned(recipe: Mapping[str, Any]) -> Iterator[MergePlan]:
    with Asked(recipe).plan() as plan:
        yield plan


def state_of(folder: Path) -> dict[str, torch.Tensor]:
    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


def expected(plan: MergePlan) -> dict[str, torch.Tensor]:
    """Every tensor by `MergeMethod.apply` on whole tensors, or the target's."""
    with one_core_each():  # the bits of a decomposition depend on torch's threads
        return {tensor.name: _expected(plan, tensor) for tensor in plan.written}


def _expected(plan: MergePlan, tensor: TensorPlan) -> torch.Tensor:
    one, base = tensor.target, tensor.base
    assert one is not None
    if tensor.action == "keep":
        return plan.sources[one.model].read(one.entry.name)
    reads = [plan.sources[i.model].read(i.entry.name) for i in tensor.inputs]
    context = Context(
        name=tensor.name,
        models=tuple(plan.sources[i.model].key for i in tensor.inputs),
        seed=plan.seed,
        layer=tensor.layer,
        layers=tensor.layers,
    )
    return get_method(tensor.method).apply(
        reads,
        plan.sources[base.model].read(base.entry.name) if base else None,
        tensor.settings,
        context,
        extras=[plan.sources[i.model].read(i.entry.name) for i in tensor.extras],
    )


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    """Names, dtypes and bits."""
    return one.keys() == other.keys() and all(
        t.dtype == other[k].dtype
        and t.shape == other[k].shape
        and torch.equal(
            t.contiguous().view(-1).view(torch.uint8),
            other[k].contiguous().view(-1).view(torch.uint8),
        )
        for k, t in one.items()
    )
