"""A method's settings: read from a formula's signature, and held against it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Union

import numpy as np
import torch
from pydantic import Field, ValidationError, create_model

from mixlab.spec import MixlabError, Settings, nearest

T = TypeVar("T")
# A setting that each merged model (not the base) may have its own value of; one value is for all.
PerModel = Union[T, Sequence[T]]  # noqa: UP007  (generic alias, Python 3.11)
Share = Annotated[float, Field(ge=0, le=1)]

_LARGEST = torch.finfo(torch.float32).max
# Kinds of values that their repr tells apart in full.
_PLAIN = (bool, int, float, str, type(None))
_REMEMBERED = 1000


def spelled(key: str) -> str:
    """A setting's name as recipes spell it: `lambda_` is `lambda` there."""
    return key.rstrip("_")


def settings_models(
    name: str, formula: Callable[..., Any], signature: inspect.Signature, extra: str
) -> tuple[type[Settings], type[Settings]]:
    """Models of a formula's settings: those of the whole method, and those of each model."""
    hints = typing.get_type_hints(formula, include_extras=True)
    shared: dict[str, Any] = {}
    each: dict[str, Any] = {}
    for key, parameter in signature.parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or key in ("context", extra):
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        one = _of_each(hints[key])
        (shared if one is None else each)[key] = (
            hints[key] if one is None else one,
            Field(default, alias=spelled(key)),
        )
    title, module = "".join(part.capitalize() for part in name.split("_")), formula.__module__
    return (
        create_model(f"{title}Settings", __base__=Settings, __module__=module, **shared),
        create_model(f"{title}ModelSettings", __base__=Settings, __module__=module, **each),
    )


class Resolver:
    """Validates settings of one method; the same ones again cost a look-up.

    Args:
        name: the method's, for errors.
        shared, each: models of the settings.
    """

    def __init__(self, name: str, shared: type[Settings], each: type[Settings]) -> None:
        self._name, self._shared, self._each = name, shared, each
        self._fields = {spelled(key): key for key in each.model_fields}
        self._known = {spelled(key) for key in shared.model_fields} | self._fields.keys()
        self._found: dict[tuple[object, ...], dict[str, Any]] = {}

    def resolve(self, given: Mapping[str, Any], count: int) -> dict[str, Any]:
        """As `MergeMethod.settings`."""
        key = _key(given, count)
        found = None if key is None else self._found.get(key)
        if found is None:
            found = self._resolve(given, count)
            if key is not None:
                if len(self._found) >= _REMEMBERED:
                    self._found.clear()
                self._found[key] = found
        return dict(found)

    def _resolve(self, given: Mapping[str, Any], count: int) -> dict[str, Any]:
        own = {spelled(key): value for key, value in given.items()}
        for key in own:
            if key not in self._known:
                told = nearest(key, self._known)
                raise MixlabError(f"{self._name}: unknown setting {key!r}{told}")
        resolved = _validated(
            self._name, self._shared, {k: v for k, v in own.items() if k not in self._fields}
        )
        rows = []
        for index in range(count):
            row = {k: self._one(k, own[k], index, count) for k in self._fields if k in own}
            rows.append(_validated(self._name, self._each, row))
        for field_name in self._fields.values():
            resolved[field_name] = tuple(row[field_name] for row in rows)
        return resolved

    def _one(self, key: str, value: Any, index: int, count: int) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str):
            return value
        if len(value) != count:
            raise MixlabError(
                f"{self._name}: {key} has {len(value)} values for {count} models; give "
                "one for each, or a single one for all"
            )
        return value[index]


def _key(given: Mapping[str, Any], count: int) -> tuple[object, ...] | None:
    """What tells settings apart (1, 1.0 and True differ, so do 0.0 and -0.0), or None."""
    found: list[object] = [count]
    for key, value in given.items():
        several = type(value) in (list, tuple)
        if not all(type(item) in _PLAIN for item in (value if several else (value,))):
            return None
        found += (key, repr(value))
    return tuple(found)


def _of_each(hint: Any) -> Any:
    """T of PerModel[T], else None."""
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is Union and len(parts) == 2:
        inner = typing.get_args(parts[1])
        if typing.get_origin(parts[1]) is Sequence and inner and inner[0] == parts[0]:
            return parts[0]
    return None


def _validated(name: str, model: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in values.items():
        _check_number(name, key, value)
    try:
        checked = model.model_validate(dict(values))
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise MixlabError(f"{name}: setting {key!r} is missing") from None
        raise MixlabError(f"{name}: {key}: {first['msg']}, found {first['input']!r}") from None
    found = {key: getattr(checked, key) for key in model.model_fields}
    for key, value in found.items():
        _check_number(name, spelled(key), value)
    return found


def _check_number(name: str, key: str, value: Any) -> None:
    # torch refuses factors of float32 tensors that float32 cannot hold, or makes them infinite.
    size: Any = abs(value) if isinstance(value, float | int | np.number) else 0
    if not size <= _LARGEST:
        raise MixlabError(
            f"{name}: {key} is {value}; expected a finite number of at most {_LARGEST:.3g}"
        )
