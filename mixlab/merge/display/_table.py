"""The table of a dry run: every tensor as mixed, kept or dropped, and why."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from mixlab.checkpoint import tensor_place, tensor_size
from mixlab.merge._plan import Action, MergePlan, TensorPlan
from mixlab.merge.display._cost import plan_cost
from mixlab.store import readable

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_WORDS: dict[Action, str] = {"mix": "mixed", "keep": "kept", "drop": "dropped"}


def merge_table(plan: MergePlan, *, full: bool = False, threads: int = 2) -> str:
    """The plan as text.

    Args:
        full: one line a tensor; otherwise layers are collapsed (`model.layers.{0-23}.…` × 24), and
            so are parts that only one side has.
        threads: for the estimate of time and memory.
    """
    rows = _lines(plan, [[t] for t in plan.tensors] if full else _groups(plan))
    counts = plan.counts()
    told = [*_head(plan), "", *_aligned(rows), ""]
    for action, word in _WORDS.items():
        if counts[action]:
            chosen = [t for t in plan.tensors if t.action == action]
            told.append(f"{word:8}{_tensors(len(chosen))}, {_extent(chosen)}")
    told.append(plan_cost(plan, threads=threads).sentence())
    told += plan.facts
    told += [one.sentence() for one in plan.vocabulary]
    told += [f"warning: {warning}" for warning in plan.warnings]
    return "\n".join(told)


def as_rows(plan: MergePlan) -> list[dict[str, Any]]:
    """One plain dict a tensor, for JSON or `pandas.DataFrame`.

    Keys: tensor, action, because, dtype, shape, parameters, bytes, layer, module, method, settings,
    rows, inputs, base, target (each input as model key and tensor name).
    """
    keys = [source.key for source in plan.sources]

    def told(one: Any) -> dict[str, Any] | None:
        if one is None:
            return None
        return {"model": keys[one.model], "tensor": one.entry.name, "dtype": one.entry.dtype}

    return [
        {
            "tensor": tensor.name,
            "action": _WORDS[tensor.action],
            "because": tensor.because,
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "parameters": math.prod(tensor.shape),
            "bytes": tensor_size(tensor.dtype, tensor.shape),
            "layer": tensor.layer,
            "module": tensor_place(tensor.name).module,
            "method": tensor.method,
            "settings": {k: list(v) if isinstance(v, tuple) else v for k, v in _own(tensor)},
            "rows": tensor.rows if tensor.picked is None else len(tensor.picked.rows),
            "inputs": [told(one) for one in tensor.inputs],
            "base": told(tensor.base),
            "target": told(tensor.target),
        }
        for tensor in plan.tensors
    ]


def _head(plan: MergePlan) -> list[str]:
    models = [
        f"  {source.key}: {folder}{'  (target)' if index == plan.target else ''}"
        for index, (source, folder) in enumerate(zip(plan.sources, plan.folders, strict=True))
    ]
    methods = dict.fromkeys(t.method for t in plan.tensors if t.action == "mix")
    common = ", ".join(f"{key} {_value(v)}" for key, v in _common(plan).items())
    if not methods:
        return ["nothing is mixed; what is kept is copied", *models]
    return [
        f"method {', '.join(methods)}{f': {common}' if common else ''}; seed {plan.seed}",
        *models,
    ]


def _groups(plan: MergePlan) -> list[list[TensorPlan]]:
    groups: dict[tuple[Any, ...], list[TensorPlan]] = {}
    for tensor in plan.tensors:
        origin = tensor.target.model if tensor.action == "drop" and tensor.target else None
        alone = tensor.action != "mix" and re.fullmatch(r"(only|not) in .*\)", tensor.because)
        key = (
            (tensor.action, origin, tensor.because)
            if alone
            else (
                tensor.action, origin, tensor.because, _NUMBER.sub("#", tensor.name), tensor.dtype,
                tensor.shape, tensor.method, tuple(key for key, _ in _own(tensor)),
            )
        )  # fmt: skip
        groups.setdefault(key, []).append(tensor)
    # Files often hold layer 10 before layer 2.
    return [sorted(group, key=lambda t: _numbers(t.name)) for group in groups.values()]


def _lines(plan: MergePlan, groups: Iterable[list[TensorPlan]]) -> list[tuple[str, ...]]:
    common = _common(plan)
    order = list(_WORDS)
    told: list[tuple[str, ...]] = []
    for group in sorted(groups, key=lambda g: order.index(g[0].action)):
        first = group[0]
        one_pattern = len({(_NUMBER.sub("#", t.name), t.shape, t.dtype) for t in group}) == 1
        shape = f"{first.dtype} {list(first.shape)}" if one_pattern else _dtypes(group)
        size = readable(sum(tensor_size(t.dtype, t.shape) for t in group))
        why = first.because
        if first.action == "mix":
            settings = _ranges(group, common)
            why = "; ".join(
                text for text in (why.removeprefix("mixed").lstrip(": "), settings) if text
            )
        if first.action == "drop" and first.target is not None:
            why = f"of {plan.sources[first.target.model].key}: {why}"
        told.append(
            (
                _WORDS[first.action],
                _pattern([t.name for t in group]),
                f"× {len(group)}" if len(group) > 1 else "",
                shape,
                size,
                why,
            )
        )
    return told


def _pattern(names: list[str]) -> str:
    """One name for all: numbers as ranges, or the words that all begin with."""
    if len(names) == 1:
        return names[0]
    if len({_NUMBER.sub("#", name) for name in names}) > 1:
        words = [name.split(".") for name in names]
        shared = 0
        while all(len(w) > shared + 1 and w[shared] == words[0][shared] for w in words):
            shared += 1
        return ".".join([*words[0][:shared], "*"])
    columns = zip(*(_NUMBER.findall(name) for name in names), strict=True)
    ranges = iter([_range(sorted({int(number) for number in column})) for column in columns])
    return _NUMBER.sub(lambda _: next(ranges), names[0])


def _numbers(name: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(name)]


def _range(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    told = [f"{s[0]}-{s[-1]}" if len(s) > 1 else f"{s[0]}" for s in spans]
    return "{" + ",".join(told) + "}"


def _own(tensor: TensorPlan) -> list[tuple[str, Any]]:
    return [(key.rstrip("_"), value) for key, value in tensor.settings.items()]


def _common(plan: MergePlan) -> dict[str, Any]:
    """Settings that all mixed tensors share."""
    mixed = [dict(_own(tensor)) for tensor in plan.tensors if tensor.action == "mix"]
    if not mixed:
        return {}
    return {k: v for k, v in mixed[0].items() if all(k in m and m[k] == v for m in mixed)}


def _ranges(group: list[TensorPlan], common: Mapping[str, Any]) -> str:
    told = []
    for key, first in _own(group[0]):
        if key in common:
            continue
        values = [dict(_own(tensor))[key] for tensor in group]
        if isinstance(first, tuple):
            text = ", ".join(_span(list(column)) for column in zip(*values, strict=True))
        else:
            text = _span(values)
        told.append(f"{key} {text}")
    return "; ".join(told)


def _span(values: list[Any]) -> str:
    """The one value of all, or that of the first layer to that of the last."""
    if all(value == values[0] for value in values):
        return _value(values[0])
    return f"{_value(values[0])} to {_value(values[-1])}"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        same = len(set(value)) == 1
        return _value(value[0]) if same else ", ".join(_value(item) for item in value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _dtypes(group: list[TensorPlan]) -> str:
    return ", ".join(dict.fromkeys(tensor.dtype for tensor in group))


def _tensors(count: int) -> str:
    return f"{count} tensor{'' if count == 1 else 's'}"


def _extent(tensors: list[TensorPlan]) -> str:
    size = sum(tensor_size(t.dtype, t.shape) for t in tensors)
    return f"{sum(math.prod(t.shape) for t in tensors):,} parameters, {readable(size)}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(5)] if rows else []
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[5]]).rstrip()
        for row in rows
    ]
