"""The settings of one tensor, out of a recipe's values and schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mixlab.merge._method import MergeMethod, spelled
from mixlab.merge.planning._recipe import Recipe
from mixlab.merge.planning._recipe_checks import check_setting
from mixlab.merge.schedules._schedule import Schedule
from mixlab.spec import MixlabError, SpecError

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class _Given:
    """One value of the recipe: a schedule, or the same for every tensor."""

    key: str
    path: Path_
    value: Any
    schedule: Schedule | None


class SettingsOfTensors:
    """What a recipe says of each tensor; schedules are parsed once, results kept.

    Raises:
        SpecError: a schedule cannot be read.
    """

    def __init__(self, recipe: Recipe, method: MergeMethod) -> None:
        self._recipe, self._method = recipe, method
        self._count = len(recipe.merged)
        each = {spelled(name) for name in method.each.model_fields}
        self._shared = {
            key: self._read(key, ("settings", key), value)
            for key, value in recipe.settings.items()
            if key not in each
        }
        self._each: dict[str, list[_Given | None]] = {}
        for key in sorted(each):
            general = None
            if key in recipe.settings:
                general = self._read(key, ("settings", key), recipe.settings[key])
            self._each[key] = [
                self._read(key, (*place, key), entry.settings[key])
                if key in entry.settings
                else general
                for place, entry in recipe.merged
            ]
        self._resolved: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._checked: set[tuple[Path_, Any]] = set()

    def of(self, name: str, layer: int | None, layers: int) -> Mapping[str, Any] | None:
        """Settings of one tensor as `MergeMethod.settings` gives them; None: not to be merged.

        Raises:
            SpecError: a schedule's value is out of range, or of a per-model setting the schedules
                of some models name the tensor and those of others do not.
        """
        values: dict[str, Any] = {}
        for key, given in self._shared.items():
            value = self._value(given, name, layer, layers)
            if value is _UNNAMED:
                return None
            values[key] = value
        for key, row in self._each.items():
            found = [None if g is None else self._value(g, name, layer, layers) for g in row]
            if all(g is None for g in row):
                continue
            unnamed = [g for g, v in zip(row, found, strict=True) if g and v is _UNNAMED]
            # A plain value asks for nothing: it holds wherever the schedules name a tensor.
            scheduled = [g for g in row if g is not None and g.schedule is not None]
            if unnamed and len(unnamed) < len(scheduled):
                raise self._recipe.error(
                    unnamed[0].path,
                    f"{key}: this schedule does not name {name}, but another model's does; "
                    "give a list of rules that ends with {value: …} for the rest",
                )
            if unnamed:
                return None
            # Where a model says nothing, the method's default holds.
            default = self._method.each.model_fields[_field(self._method, key)].default
            values[key] = [
                default if g is None else value for g, value in zip(row, found, strict=True)
            ]
        cache = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in values.items())
        if cache not in self._resolved:
            try:
                self._resolved[cache] = self._method.settings(values, self._count)
            except MixlabError as error:
                raise self._recipe.error(("settings",), f"{name}: {error}") from None
        return self._resolved[cache]

    def unmatched(self, names: Iterable[str], layers: int) -> Iterator[SpecError]:
        """An error for every rule of a schedule that fits none of `names`, which are merged."""
        everything = list(names)
        rows = [*self._shared.values(), *(g for row in self._each.values() for g in row if g)]
        for given in {g.path: g for g in rows}.values():
            for told in given.schedule.unmatched(everything, layers) if given.schedule else ():
                yield self._recipe.error(given.path, f"{given.key}: {told}")

    def _read(self, key: str, path: Path_, value: Any) -> _Given:
        if not isinstance(value, list | tuple | dict):
            return _Given(key, path, value, None)
        try:
            return _Given(key, path, value, Schedule.parse(value))
        except MixlabError as error:
            raise self._recipe.error(path, f"{key}: {error}") from None

    def _value(self, given: _Given, name: str, layer: int | None, layers: int) -> Any:
        if given.schedule is None:
            return given.value
        try:
            value = given.schedule.value(name, layer, layers)
        except MixlabError as error:
            raise self._recipe.error(given.path, f"{given.key}: {error}") from None
        if value is None:
            return _UNNAMED
        if (given.path, value) not in self._checked:
            wrong = check_setting(self._method, given.key, value)
            if wrong:
                raise self._recipe.error(given.path, f"{self._method.name}: {name}: {wrong}")
            self._checked.add((given.path, value))
        return value


_UNNAMED: Any = object()


def _field(method: MergeMethod, key: str) -> str:
    return next(name for name in method.each.model_fields if spelled(name) == key)
