"""Settings of one tensor, out of values and schedules given in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mixlab.merge._method import MergeMethod, spelled
from mixlab.merge.schedules._schedule import Schedule
from mixlab.spec import MixlabError, nearest


class TensorSettings:
    """A method's settings, any of which may be a schedule.

    Args:
        method: whose settings these are.
        given: setting -> value or schedule. A list for a per-model setting has one value or
            schedule for each model; any other list is a gradient over layers. (A gradient for
            all models alike is `{"gradient": [...]}`.)
        count: of merged models.

    Raises:
        MixlabError: an unknown setting, a list of another length, or a schedule that cannot be
            read.
    """

    def __init__(self, method: MergeMethod, given: Mapping[str, Any], count: int) -> None:
        self._method, self._count = method, count
        each = {spelled(key) for key in method.each.model_fields}
        known = {spelled(key) for key in method.shared.model_fields} | each
        self._shared: dict[str, Schedule] = {}
        self._each: dict[str, list[Schedule]] = {}
        self._plain: dict[str, Any] = {}
        for key, value in given.items():
            name = spelled(key)
            if name not in known:
                raise MixlabError(f"{method.name}: unknown setting {name!r}{nearest(name, known)}")
            if name in each:
                self._each[name] = [self._read(name, one) for one in self._rows(name, value)]
            elif value is None:
                self._plain[name] = None
            else:
                self._shared[name] = self._read(name, value)
        self._resolved: dict[tuple[Any, ...], Mapping[str, Any]] = {}

    def of(self, name: str, layer: int | None, layers: int) -> Mapping[str, Any] | None:
        """Settings as `MergeMethod.settings` gives them; None where a schedule leaves `name` out.

        Raises:
            MixlabError: a value is out of range, or the schedules of some models name the tensor
                and those of others do not.
        """
        values: dict[str, Any] = dict(self._plain)
        for key, schedule in self._shared.items():
            values[key] = schedule.value(name, layer, layers)
            if values[key] is None:
                return None
        for key, row in self._each.items():
            found = [schedule.value(name, layer, layers) for schedule in row]
            if all(value is None for value in found):
                return None
            if None in found:
                raise MixlabError(
                    f"{name}: {key} has a value for some models and none for model "
                    f"{found.index(None)}; end its schedule with a rule {{value: …}} for the rest"
                )
            values[key] = found
        cache = tuple((k, *v) if isinstance(v, list) else (k, v) for k, v in values.items())
        if cache not in self._resolved:
            try:
                self._resolved[cache] = self._method.settings(values, self._count)
            except MixlabError as error:
                raise MixlabError(f"{name}: {error}") from None
        return self._resolved[cache]

    def unmatched(self, names: Iterable[str], layers: int) -> list[str]:
        """One sentence for every part of a schedule that names none of these tensors."""
        names = list(names)
        rows = {key: [schedule] for key, schedule in self._shared.items()} | self._each
        found = [
            f"{key}: {sentence}"
            for key, row in rows.items()
            for schedule in row
            for sentence in schedule.unmatched(names, layers)
        ]
        return list(dict.fromkeys(found))

    def _rows(self, key: str, value: Any) -> Sequence[Any]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            return [value] * self._count
        if value and all(isinstance(item, Mapping) and "value" in item for item in value):
            return [value] * self._count
        if len(value) != self._count:
            raise MixlabError(
                f"{self._method.name}: {key} has {len(value)} values for {self._count} models; "
                "give one for each, a single one for all, or {gradient: [...]} over layers"
            )
        return value

    def _read(self, key: str, value: Any) -> Schedule:
        try:
            return Schedule.parse(value)
        except MixlabError as error:
            raise MixlabError(f"{self._method.name}: {key}: {error}") from None
