"""From a recipe to a plan: headers and configs alone, all mistakes at once, nothing written."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch

from mixlab.checkpoint import tensor_place
from mixlab.merge._method import Context, MergeMethod, get_method
from mixlab.merge._plan import MergePlan, TensorPlan
from mixlab.merge.planning._config import output_config
from mixlab.merge.planning._configs import compare_sides, config_differences
from mixlab.merge.planning._decisions import Decisions
from mixlab.merge.planning._dropping import LACKS
from mixlab.merge.planning._heads import Heads
from mixlab.merge.planning._language import align_vocabularies, pair_language
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._opening import Side, close_sides, find_target, open_sides, pair_sides
from mixlab.merge.planning._pairing import part_of
from mixlab.merge.planning._recipe import Recipe
from mixlab.merge.planning._side_files import side_files
from mixlab.merge.planning._token_rows import warnings_of
from mixlab.merge.planning._tokenizers import compare_tokenizers
from mixlab.spec import MixlabError


def plan_merge(recipe: Recipe) -> MergePlan:
    """Decide for every tensor of every model whether it is mixed, kept or dropped, and why.

    Reads headers, configs and tokenizers, and of weights only what must be known beforehand:
    integer buffers up to 1 MB, and samples of heads that may be tied.

    Returns:
        A plan whose sources are open; whoever executes it closes them.

    Raises:
        MixlabError: every mistake at once, naming tensors, files and mends.
    """
    method = get_method(recipe.method)
    sides = open_sides(recipe, method)
    try:
        return _plan(recipe, method, sides)
    except BaseException:
        close_sides(sides)
        raise


def _plan(recipe: Recipe, method: MergeMethod, sides: list[Side]) -> MergePlan:
    target = find_target(recipe, sides)
    mistakes, language, vocabularies, told = Mistakes(), None, None, list[str]()
    if recipe.vlm is None:
        pair_sides(recipe, sides, target)
        told += config_differences(sides, target)
    else:
        told += compare_sides(sides, target, mistakes)
        mistakes.stop("the models do not fit")
        language = pair_language(recipe, sides, target)
        vocabularies = align_vocabularies(language, sides, target, mistakes)
    heads = Heads.of(target)
    decisions = Decisions(
        recipe,
        method,
        sides,
        target,
        heads,
        language=None if language is None else language.names,
        vocabularies=vocabularies,
        mistakes=mistakes,
    )
    tensors = decisions.all()
    warnings = decisions.warnings
    mixed = [tensor for tensor in tensors if tensor.action == "mix"]
    rows = () if vocabularies is None else vocabularies.report()
    if vocabularies is None:
        _check_tokenizers(sides, target, mixed, mistakes, warnings)
    else:
        warnings += warnings_of(rows)
    mistakes.stop("recipe and models do not fit")
    if not mixed:
        reasons: dict[str, int] = defaultdict(int)
        for tensor in tensors:
            reasons[tensor.because] += tensor.action == "keep"
        why = "; ".join(f"{count} tensors kept: {because}" for because, count in reasons.items())
        raise MixlabError(f"nothing would be merged ({why}); widen `scope:` or the schedules")
    _probe(recipe, method, mixed)
    warnings += told
    warnings += _zero_vectors(sides)
    warnings += _lost(sides, tensors)
    return MergePlan(
        sources=tuple(side.source for side in sides),
        folders=tuple(side.folder for side in sides),
        target=target.index,
        tensors=tuple(tensors),
        seed=recipe.seed,
        config=output_config(target.config, dtype=recipe.out_dtype, tied=heads.config_tied),
        recipe=recipe.plain(),
        warnings=tuple(dict.fromkeys(warnings)),
        side_files=side_files(target.folder),
        facts=() if language is None else (*_alpha(mixed), *language.facts),
        vocabulary=rows,
    )


def _check_tokenizers(
    sides: list[Side],
    target: Side,
    mixed: list[TensorPlan],
    mistakes: Mistakes,
    warnings: list[str],
) -> None:
    tables = [t for t in mixed if tensor_place(t.name).module in ("embeddings", "lm_head")]
    if not tables:
        return
    for side in sides:
        if side is target or side.role == "extra":
            continue
        wrong, told = compare_tokenizers(target.folder, side.folder)
        for mistake in wrong:
            mistakes.add(mistake)
        warnings += told
        for table in tables:
            rows, its = table.shape[0], side.entry(table.name).shape[0]
            if its > rows:
                warnings.append(
                    f"{table.name}: {side.folder} has {its} rows, the target {rows}; the "
                    f"{its - rows} beyond take no part"
                )


def _alpha(mixed: list[TensorPlan]) -> list[str]:
    values = [one.settings["alpha"] for one in mixed if one.method == "wise_ft"]
    if not values:
        return []
    low, high = min(values), max(values)
    shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return [
        f"alpha {shown}: theta = (1 - alpha) * reference + alpha * VLM, so that alpha 1 is the VLM "
        "untouched and alpha 0 the reference"
    ]


def _zero_vectors(sides: list[Side]) -> list[str]:
    bases = {side.folder.resolve() for side in sides if side.role == "base"}
    return [
        f"{side.folder} is also the base: it differs from it in nothing"
        for side in sides
        if side.role == "model" and side.folder.resolve() in bases
    ]


def _lost(sides: list[Side], tensors: list[TensorPlan]) -> list[str]:
    """A sentence for what no output tensor is made of, by model and part."""
    lost: dict[tuple[int, str], list[TensorPlan]] = defaultdict(list)
    for tensor in tensors:
        if tensor.action == "drop" and tensor.because.startswith(("not in", LACKS)):
            assert tensor.target is not None
            lost[tensor.target.model, part_of(tensor.name)].append(tensor)
    told = []
    for (model, part), found in lost.items():
        ones, have = ("tensor", "has") if len(found) == 1 else ("tensors", "have")
        told.append(
            f"{len(found)} {ones} of {sides[model].folder} under {part} "
            f"({sum(math.prod(t.shape) for t in found):,} parameters) {have} no place in the output"
        )
    return told


def _probe(recipe: Recipe, method: MergeMethod, mixed: list[TensorPlan]) -> None:
    """Run the formula once for all distinct settings, on a tensor of four values.

    What a formula refuses for its settings alone (weights that sum to 0) is told before anything
    is written.
    """
    seen: set[tuple[Any, ...]] = set()
    generator = torch.Generator().manual_seed(0)
    count = len(recipe.merged)
    values = torch.rand(2 * count + 1, 2, 2, generator=generator) + 0.5
    for tensor in mixed:
        key = _hashable(tensor.settings)
        if key in seen:
            continue
        seen.add(key)
        context = Context(name=tensor.name, layer=tensor.layer, layers=tensor.layers)
        base = values[-1] if tensor.base is not None else None
        extras = list(values[count : 2 * count]) if method.extra else []
        try:
            method.apply(
                list(values[:count]), base, tensor.settings, context, extras=extras, plain=True
            )
        except MixlabError as error:
            told = str(error)
            told = told if tensor.name in told else f"{tensor.name}: {told}"
            raise recipe.error(("settings",), told) from None


def _hashable(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((key, repr(value)) for key, value in settings.items()))
