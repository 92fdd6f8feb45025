"""Whether a document's slices fit the models and the method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, MergeMethod
from mixlab.merge._plan import TensorPlan
from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._models import Opened
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._slices import Slice
from mixlab.spec import MixlabError


def check_part(
    document: Document, method: MergeMethod, part: Slice, models: Mapping[Reference, Opened]
) -> None:
    """Refuse a slice that the models or the method do not fit.

    Raises:
        SpecError: a range ends beyond a model's blocks, numbers of blocks differ, the base is
            missing, or there are too few or too many models.
    """
    located, name = document.located, method.name
    lengths: dict[str, Any] = {}
    for source in part.sources:
        own = models[source.model].layers
        if source.stop is not None and source.stop > own:
            raise located.error(
                (*source.path, "layer_range"),
                f"{source.model} has {own} blocks, layer_range ends at {source.stop}",
            )
        lengths[str(source.model)] = (own if source.stop is None else source.stop) - source.start
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{model} {length}" for model, length in lengths.items())
        raise located.error(part.path, f"the models have different numbers of blocks: {shown}")
    given = [source.model for source in part.sources]
    has_base = method.base != "none" and part.base is not None
    if has_base and part.base not in given:
        raise located.error(
            part.path, f"base_model {part.base} is not among the sources of this slice; add it"
        )
    if method.base == "required" and not has_base:
        raise located.error(("merge_method",), f"{name} measures from a base; give base_model:")
    count = len(given) - has_base
    # A slice of the base alone is the base, as in mergekit.
    alone = count == 0 and method.models == (1, None)
    if not alone:
        try:
            method.check(count, has_base)
        except MixlabError as error:
            raise located.error(part.path or ("models",), str(error)) from None


def probe(document: Document, method: MergeMethod, tensors: Iterable[TensorPlan]) -> None:
    """Run the formula once for all distinct settings, on a tensor of four values.

    What a formula refuses for its settings alone (weights that sum to 0) is told before anything
    is written.

    Raises:
        SpecError: naming the first tensor of such settings.
    """
    seen: set[str] = set()
    for tensor in tensors:
        key = repr((len(tensor.inputs), sorted(tensor.settings.items())))
        if tensor.action != "mix" or key in seen:
            continue
        seen.add(key)
        values = torch.rand(
            len(tensor.inputs) + 1, 2, 2, generator=torch.Generator().manual_seed(0)
        )
        base = values[-1] if tensor.base is not None else None
        context = Context(name=tensor.name, layer=tensor.layer, layers=tensor.layers)
        try:
            method.apply(list(values[:-1]), base, tensor.settings, context, plain=True)
        except MixlabError as error:
            told = str(error)
            told = told if tensor.name in told else f"{tensor.name}: {told}"
            raise document.located.error(("parameters",), told) from None


def mixed_kinds(parts: Iterable[Slice], models: Mapping[Reference, Opened]) -> list[str]:
    """A sentence for each slice that mixes blocks of other kinds (sliding and full attention)."""
    told = []
    for part in parts:
        kinds = [
            layer_types(models[source.model].config)[source.start : source.stop]
            for source in part.sources
        ]
        if all(kinds) and any(kind != kinds[0] for kind in kinds):
            sources = ", ".join(f"{s.model} from block {s.start}" for s in part.sources)
            told.append(
                f"a slice mixes blocks whose layer_types differ ({sources}); they compute "
                "different things from the same weights"
            )
    return told


def layer_types(config: Mapping[str, Any]) -> list[Any]:
    """`layer_types` of a config or its text config; empty where neither has it."""
    text = config.get("text_config")
    for part in (config, text if isinstance(text, dict) else {}):
        if isinstance(part.get("layer_types"), list):
            return list(part["layer_types"])
    return []
