"""Schedules made of rules: the first that names a tensor gives its value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from mixlab.checkpoint import MODULES, count_layers, tensor_place
from mixlab.merge.schedules._schedule import Scalar, Schedule, shown
from mixlab.spec import MixlabError, nearest

_KEYS = ("match", "module", "layers", "value")


@dataclass(frozen=True)
class Rule:
    """A value for the tensors that meet every condition; an empty condition always holds.

    Args:
        match: globs, of which one must fit the full name.
        modules: as in `tensor_place`.
        spans: first and last layer (inclusive; None: to the end).
        schedule: the value; None keeps the tensor.
    """

    match: tuple[str, ...]
    modules: tuple[str, ...]
    spans: tuple[tuple[int, int | None], ...]
    schedule: Schedule | None

    def selects(self, name: str, layer: int | None) -> bool:
        """Whether the conditions hold."""
        if self.match and not any(fnmatchcase(name, pattern) for pattern in self.match):
            return False
        if self.modules and tensor_place(name).module not in self.modules:
            return False
        return not self.spans or (
            layer is not None
            and any(a <= layer and (b is None or layer <= b) for a, b in self.spans)
        )

    def describe(self) -> str:
        """`attention, layers 12-23: 0.5`."""
        conditions = [*self.match, *self.modules]
        if self.spans:
            spans = [f"{a}" if a == b else f"{a}-{'' if b is None else b}" for a, b in self.spans]
            conditions.append("layers " + ",".join(spans))
        value = shown(None) if self.schedule is None else self.schedule.describe()
        return f"{', '.join(conditions) or 'the rest'}: {value}"


@dataclass(frozen=True)
class Rules(Schedule):
    """Rules in order."""

    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, given: Sequence[Mapping[str, Any]]) -> Rules:
        """From plain data.

        Raises:
            MixlabError: an unknown key, module or range of layers, or a rule without value.
        """
        return cls(tuple(_rule(item, index) for index, item in enumerate(given)))

    def value(self, name: str, layer: int | None, layers: int) -> Scalar | None:
        for rule in self.rules:
            if rule.selects(name, layer):
                if rule.schedule is None:
                    return None
                found = rule.schedule.value(name, layer, layers)
                if found is not None:
                    return found
        return None

    def unmatched(self, names: Iterable[str], layers: int | None = None) -> list[str]:
        names = list(names)
        layers = count_layers(names) if layers is None else layers
        left, found = set(names), []
        for rule in self.rules:
            chosen = [n for n in names if rule.selects(n, tensor_place(n).layer)]
            taken = {
                n for n in chosen
                if rule.schedule is None or rule.schedule.at(n, layers) is not None
            }  # fmt: skip
            if not chosen:
                found.append(
                    f"rule `{rule.describe()}` matches nothing{_near(rule, names, layers)}"
                )
            elif not taken:
                found.append(f"rule `{rule.describe()}` gives its tensors no value")
            elif not taken & left:
                found.append(
                    f"rule `{rule.describe()}` is never reached: earlier rules take all its "
                    "tensors; put it before them"
                )
            left -= taken
        return found

    def describe(self) -> str:
        return "; ".join(rule.describe() for rule in self.rules)


def near_names(pattern: str, names: Iterable[str]) -> str:
    """`; did you mean …?` for a glob that fits none of `names`, else some of the names."""
    shapes = list(dict.fromkeys(re.sub(r"\.\d+(?=\.|$)", ".*", name) for name in names))
    core = pattern.strip("*")
    inside = [s for s in shapes if core and core in s]
    if inside and core == pattern:
        return f"; a pattern must fit the whole name: did you mean '*{core}*', as in {inside[0]}?"
    close = difflib.get_close_matches(pattern, shapes, n=3, cutoff=0.5) or (inside or shapes)[:3]
    return f"; the nearest names are {', '.join(close)}" if close else ""


def _near(rule: Rule, names: list[str], layers: int) -> str:
    for pattern in rule.match:
        if not any(fnmatchcase(name, pattern) for name in names):
            return near_names(pattern, names)
    here = sorted({str(tensor_place(name).module) for name in names})
    if rule.modules and not set(rule.modules) & set(here):
        return f"; there is {', '.join(here)}"
    if rule.spans:
        return f"; there are {layers} layers, counted from 0"
    return ""


def _rule(given: Mapping[str, Any], index: int) -> Rule:
    for key in given:
        if key not in _KEYS:
            raise MixlabError(f"rule {index + 1}: unknown key {key!r}{nearest(key, _KEYS)}")
    if "value" not in given:
        raise MixlabError(f"rule {index + 1} has no `value`; give one, or null to keep its tensors")
    modules = _texts(given.get("module"), "module", index)
    for module in modules:
        if module not in MODULES:
            raise MixlabError(f"rule {index + 1}: no module {module!r}{nearest(module, MODULES)}")
    value = given["value"]
    return Rule(
        _texts(given.get("match"), "match", index),
        modules,
        _spans(given.get("layers"), index),
        None if value is None else Schedule.parse(value),
    )


def _texts(given: Any, key: str, index: int) -> tuple[str, ...]:
    items = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(items, Sequence) or not all(isinstance(i, str) and i for i in items):
        raise MixlabError(f"rule {index + 1}: {key} is {given!r}; expected text or a list of texts")
    return tuple(items)


def _spans(given: Any, index: int) -> tuple[tuple[int, int | None], ...]:
    """`3`, `"12-23"`, `"12-"`, `"0-3, 28-"` or a list of these."""
    if given is None:
        return ()
    items = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    spans: list[tuple[int, int | None]] = []
    for item in [part for text in items for part in str(text).split(",")]:
        found = re.fullmatch(r"\s*(\d+)\s*(-\s*(\d*)\s*)?", item)
        if found is None or (found[3] and int(found[3]) < int(found[1])):
            raise MixlabError(
                f"rule {index + 1}: layers {given!r}; expected an index, a range such as "
                '"12-23" (both ends included) or "12-", or a list of these'
            )
        last = int(found[1]) if found[2] is None else int(found[3]) if found[3] else None
        spans.append((int(found[1]), last))
    return tuple(spans)
