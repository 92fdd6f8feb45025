"""How a setting varies over a model's tensors: by layer, by module, by name."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from mixlab.checkpoint import count_layers, tensor_place
from mixlab.spec import MixlabError, nearest

Scalar = bool | int | float | str
_KEYS = {
    "gradient": "a list of values spread over the layers",
    "layers": "a list with one value for each layer",
    "lines": "{alpha: a, beta: b}",
    "late": "a value, with `from:` a share of the depth or a layer",
    "from": "beside `late`",
    "value": "a rule's value",
    "match": "a rule's globs over full names",
    "module": "a rule's module",
}


class Schedule(ABC):
    """A setting's value at every tensor; None where it does not name the tensor.

    A tensor that a schedule does not name is kept bit for bit. Schedules over layers name tensors
    in the language model's blocks only; embeddings, final norm, head and other towers need a rule.
    """

    @staticmethod
    def parse(given: Any) -> Schedule:
        """Read a schedule from plain data; one that is parsed already is handed through.

        - `0.5`: one value for every tensor;
        - `[0, 0.5, 1]` or `{gradient: [0, 0.5, 1]}`: spread evenly over the layers (as in
          mergekit: first layer 0, last layer 1, straight lines between; text and booleans are
          picked and not interpolated);
        - `{layers: [0.1, 0.2, …]}`: one value for each layer, null where it is kept;
        - `{lines: {alpha: a, beta: b}}`: a + b * l / (L - 1) (LiNeS, arXiv:2410.17146);
        - `{late: v, from: 0.5}`: v in the layers from this share of the depth on, or from a
          layer's index, nothing before (PlaM, arXiv:2601.07645);
        - a list of rules `{match: globs, module: …, layers: "12-23", value: …}`: the first whose
          conditions all hold and whose value (again a schedule) names the tensor; `value: null`
          keeps it.

        Raises:
            MixlabError: neither of these, or a number that is not finite.
        """
        from mixlab.merge.schedules._rules import Rules

        if isinstance(given, Schedule):
            return given
        if isinstance(given, Mapping):
            return _from_mapping(given)
        if isinstance(given, Sequence) and not isinstance(given, str):
            if given and all(isinstance(item, Mapping) for item in given):
                return Rules.read(given)
            return Gradient(_scalars(given, "a gradient over layers"))
        return Constant(_scalar(given))

    @property
    def varies(self) -> bool:
        """Whether it is more than one value for every tensor."""
        return True

    @abstractmethod
    def value(self, name: str, layer: int | None, layers: int) -> Scalar | None:
        """The value at tensor `name`, which stands in block `layer` of `layers` (or in none).

        Raises:
            MixlabError: the schedule was written for another number of layers.
        """

    def at(self, name: str, layers: int) -> Scalar | None:
        """`value`, with the layer read from the name."""
        return self.value(name, tensor_place(name).layer, layers)

    def unmatched(self, names: Iterable[str], layers: int | None = None) -> list[str]:
        """One sentence for every part of the schedule that names none of these tensors.

        Args:
            names: of the tensors that are to be merged.
            layers: of the model; by default counted in `names`.
        """
        names = list(names)
        layers = count_layers(names) if layers is None else layers
        if any(self.at(name, layers) is not None for name in names):
            return []
        return [f"{self.describe()} names no tensor"]

    def check(self, names: Iterable[str], layers: int | None = None) -> None:
        """Raise MixlabError with all that `unmatched` finds."""
        found = self.unmatched(names, layers)
        if found:
            raise MixlabError("; ".join(found))

    @abstractmethod
    def describe(self) -> str:
        """One line for tables."""


@dataclass(frozen=True)
class Constant(Schedule):
    """One value for every tensor."""

    setting: Scalar

    @property
    def varies(self) -> bool:
        return False

    def value(self, name: str, layer: int | None, layers: int) -> Scalar | None:
        return self.setting

    def unmatched(self, names: Iterable[str], layers: int | None = None) -> list[str]:
        return []

    def describe(self) -> str:
        return shown(self.setting)


@dataclass(frozen=True)
class Gradient(Schedule):
    """Values spread evenly over the layers; one layer alone takes the last, as in mergekit."""

    values: tuple[Scalar, ...]

    def value(self, name: str, layer: int | None, layers: int) -> Scalar | None:
        if layer is None:
            return None
        share = layer / (layers - 1) if layers > 1 else 1.0
        at = share * (len(self.values) - 1)
        low = min(int(at), len(self.values) - 1)
        first, second = self.values[low], self.values[min(low + 1, len(self.values) - 1)]
        if any(isinstance(value, bool | str) for value in self.values):
            return first
        assert not isinstance(first, str)
        assert not isinstance(second, str)
        part = at - low
        return (1 - part) * first + part * second

    def describe(self) -> str:
        return "over layers " + " to ".join(map(shown, self.values))


@dataclass(frozen=True)
class PerLayer(Schedule):
    """One value for each layer; None keeps it."""

    values: tuple[Scalar | None, ...]

    def value(self, name: str, layer: int | None, layers: int) -> Scalar | None:
        if len(self.values) != layers:
            raise MixlabError(
                f"`layers` gives {len(self.values)} values, the model has {layers} layers; give "
                "one for each, or `gradient:` with as many as you like"
            )
        return None if layer is None else self.values[layer]

    def describe(self) -> str:
        values = [shown(value) for value in self.values]
        if len(values) > 8:
            values = [*values[:3], "…", *values[-3:]]
        return f"by layer [{', '.join(values)}]"


@dataclass(frozen=True)
class Lines(Schedule):
    """alpha + beta * l / (L - 1); one layer alone takes alpha. LiNeS, arXiv:2410.17146, eq. 2."""

    alpha: float
    beta: float

    def value(self, name: str, layer: int | None, layers: int) -> Scalar | None:
        if layer is None:
            return None
        return self.alpha + self.beta * (layer / (layers - 1) if layers > 1 else 0.0)

    def describe(self) -> str:
        return f"LiNeS {shown(self.alpha)} + {shown(self.beta)} l / (L - 1)"


@dataclass(frozen=True)
class Late(Schedule):
    """One value in the layers from `start` on: an index, or (a float) a share of the depth."""

    setting: Scalar
    start: int | float

    def value(self, name: str, layer: int | None, layers: int) -> Scalar | None:
        if layer is None:
            return None
        # A share such as 0.1 of 30 layers is not exactly 3 in floating point.
        first = self.start * layers - 1e-9 if isinstance(self.start, float) else self.start
        return self.setting if layer >= first else None

    def describe(self) -> str:
        share = isinstance(self.start, float)
        where = f"{self.start:.0%} of the depth" if share else f"layer {self.start}"
        return f"{shown(self.setting)} from {where} on"


def shown(value: Scalar | None) -> str:
    """A value in a table."""
    if value is None:
        return "kept"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _from_mapping(given: Mapping[str, Any]) -> Schedule:
    from mixlab.merge.schedules._rules import Rules

    for key in given:
        if key not in _KEYS:
            raise MixlabError(f"schedule: unknown key {key!r}{nearest(key, _KEYS)}")
    if "value" in given:
        return Rules.read([given])
    keys = set(given)
    if keys == {"gradient"}:
        return Gradient(_scalars(given["gradient"], "`gradient`"))
    if keys == {"layers"}:
        return PerLayer(_scalars(given["layers"], "`layers`", none=True))
    if keys == {"lines"}:
        return _lines(given["lines"])
    if keys == {"late", "from"}:
        return Late(_scalar(given["late"]), _start(given["from"]))
    if keys == {"late"}:
        raise MixlabError("`late` needs `from:`, a share of the depth (0.5) or a layer (16)")
    ways = "; ".join(f"{key}: {text}" for key, text in _KEYS.items())
    raise MixlabError(f"schedule: {sorted(map(str, keys))} make no schedule together. {ways}")


def _lines(given: Any) -> Lines:
    if not isinstance(given, Mapping) or not {"alpha"} <= set(given) <= {"alpha", "beta"}:
        raise MixlabError(f"`lines` is {given!r}; expected {{alpha: 0.2, beta: 0.8}}")
    alpha = _number(given["alpha"], "lines.alpha")
    return Lines(alpha, _number(given.get("beta", 1 - alpha), "lines.beta"))


def _start(given: Any) -> int | float:
    number = given if type(given) is int else _number(given, "from")
    if number < 0 or (isinstance(number, float) and number >= 1):
        raise MixlabError(f"`from` is {given!r}; expected a share in [0, 1) or a layer's index")
    return number


def _number(given: Any, what: str) -> float:
    value = _scalar(given)
    if isinstance(value, bool | str):
        raise MixlabError(f"{what} is {given!r}; expected a number")
    return float(value)


def _scalar(given: Any) -> Scalar:
    if isinstance(given, bool | str):
        return given
    if isinstance(given, Real):  # numpy's too
        if not math.isfinite(given):
            raise MixlabError(f"{given} is not finite; a setting must be")
        return int(given) if isinstance(given, Integral) else float(given)
    raise MixlabError(
        f"{given!r} is no schedule; expected a value, a list over layers, a mapping with "
        f"{', '.join(list(_KEYS)[:4])} or a list of rules"
    )


def _scalars(given: Any, what: str, none: bool = False) -> tuple[Any, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise MixlabError(f"{what} is {given!r}; expected a list of values")
    values = tuple(None if none and item is None else _scalar(item) for item in given)
    kinds = {type(v) if isinstance(v, bool | str) else float for v in values if v is not None}
    if len(kinds) > 1:
        raise MixlabError(f"{what} mixes kinds of values: {list(values)}; give one kind")
    return values
