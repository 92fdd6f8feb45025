"""Merges of tiny models, for tests of what happens on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from mixlab.checkpoint import Checkpoint
from mixlab.merge import Context, MergePlan, get_method
from mixlab.merge._asked import Asked


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
    found = {}
    for tensor in plan.written:
        one = tensor.target
        assert one is not None
        if tensor.action == "keep":
            found[tensor.name] = plan.sources[one.model].read(one.entry.name)
            continue
        reads = [plan.sources[i.model].read(i.entry.name) for i in tensor.inputs]
        base = tensor.base
        context = Context(
            name=tensor.name,
            models=tuple(plan.sources[i.model].key for i in tensor.inputs),
            seed=plan.seed,
            layer=tensor.layer,
            layers=tensor.layers,
        )
        found[tensor.name] = get_method(tensor.method).apply(
            reads,
            plan.sources[base.model].read(base.entry.name) if base else None,
            tensor.settings,
            context,
            extras=[plan.sources[i.model].read(i.entry.name) for i in tensor.extras],
            dtype=reads[0].dtype,
        )
    return found


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


__all__ = ["Checkpoint", "expected", "planned", "recipe_of", "same", "state_of"]
