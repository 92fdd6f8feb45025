"""Settings with filters and gradients, resolved for one tensor as mergekit resolves them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from mixlab.merge._method import MergeMethod, get_method, method_names, spelled
from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._forms import SCALARS, filters, malformed
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._slices import Scope, Slice
from mixlab.spec import MixlabError, nearest

# What mergekit requires although our methods have a default, so that a file means the same to both.
_REQUIRED = {"weight", "t"}
# Where our default refuses what mergekit does without a word, its behaviour.
_LENIENT = {"antiparallel": "lerp"}
# Accepted without effect: it chooses the type of a temporary mask.
_IGNORED = {"int8_mask"}


@dataclass
class Resolver:
    """Finds the settings of every tensor of a document.

    Args:
        document: for the places of mistakes.
        method: of the document.
        warnings: sentences for the user, filled while settings are resolved.
        matched: filters that fitted some tensor, filled likewise.
        graded: names of tensors outside the blocks that took a gradient's first value.
    """

    document: Document
    method: MergeMethod
    warnings: list[str] = field(default_factory=list)
    matched: set[str] = field(default_factory=set)
    graded: list[str] = field(default_factory=list)

    @cached_property
    def _types(self) -> dict[str, TypeAdapter[Any]]:
        return {
            spelled(key): TypeAdapter(cast(Any, info.annotation))
            for model in (self.method.shared, self.method.each)
            for key, info in model.model_fields.items()
        }

    def resolve(
        self,
        part: Slice,
        name: str,
        inputs: Mapping[Reference, str],
        t: float | None,
    ) -> dict[str, Any]:
        """Settings for `MergeMethod.settings`, per-model ones as lists in the order of `inputs`.

        Args:
            part: the slice that the tensor belongs to.
            name: of the output tensor, which filters of shared settings look into.
            inputs: merged models with the names that their tensors have there, which filters of
                per-model settings look into.
            t: from 0 at the slice's first block to 1 at its last (1 for a single block); None
                outside blocks, where mergekit uses 0 and so the first value of every gradient.

        Raises:
            SpecError: a value is of another type or out of range, or a required one is missing.
        """
        given: dict[str, Any] = {}
        for key in map(spelled, self.method.shared.model_fields):
            value = self._first(key, part.scopes_of(None), name, t)
            if value is not None:
                given[key] = value
            elif key in _REQUIRED:
                raise self._missing(key, name, None)
            elif key in _LENIENT:
                given[key] = _LENIENT[key]
        for key in map(spelled, self.method.each.model_fields):
            values = [
                self._first(key, part.scopes_of(model), own, t) for model, own in inputs.items()
            ]
            if all(value is None for value in values) and key not in _REQUIRED:
                continue
            default = self.method.each.model_fields.get(key) or self.method.each.model_fields.get(
                f"{key}_"
            )
            for index, (model, own) in enumerate(inputs.items()):
                if values[index] is None:
                    if key in _REQUIRED or default is None or default.is_required():
                        raise self._missing(key, own, model)
                    values[index] = default.get_default()
            given[key] = values
        return given

    def check(self, parts: Iterable[Slice]) -> None:
        """Refuse unknown settings and malformed values; warn of settings without effect.

        Raises:
            SpecError: with the line of the setting.
        """
        every = {key for name in method_names() for key in _keys(get_method(name))} | _IGNORED
        scopes: dict[tuple[str | int, ...], Scope] = {}
        for part in parts:
            for scope in (*(source.scope for source in part.sources), *part.scopes):
                scopes.setdefault(scope.path, scope)
        for scope in scopes.values():
            for key, value in scope.parameters.items():
                place = (*scope.path, key)
                if key not in every:
                    raise self.document.located.error(
                        place, f"unknown setting {key!r}{nearest(key, self._types)}"
                    )
                if key not in self._types and key not in _IGNORED:
                    self.warnings.append(f"{key} has no effect in {self.method.name}")
                mistake = malformed(value)
                if mistake:
                    raise self.document.located.error(place, f"{key}: {mistake}")

    def unmatched(self, parts: Iterable[Slice]) -> list[str]:
        """Filters that fitted no tensor, once each."""
        found: dict[str, None] = {}
        for part in parts:
            for scope in (*(source.scope for source in part.sources), *part.scopes):
                for key, value in scope.parameters.items():
                    if key in self._types:
                        found.update(dict.fromkeys(filters(value)))
        return [name for name in found if name not in self.matched]

    def _first(self, key: str, scopes: Iterable[Scope], name: str, t: float | None) -> Any:
        for scope in scopes:
            if key in scope.parameters and scope.parameters[key] is not None:
                value = self._evaluate(key, scope, scope.parameters[key], name, t)
                if value is not None:
                    return value
        return None

    def _evaluate(self, key: str, scope: Scope, setting: Any, name: str, t: float | None) -> Any:
        if isinstance(setting, SCALARS):
            return self._typed(key, scope, setting)
        if isinstance(setting, Mapping):
            setting = [setting]
        if not setting:
            return None
        if isinstance(setting[0], SCALARS):
            return self._at(key, scope, setting, name, t)
        for condition in setting:
            wanted = condition.get("filter")
            if wanted in (None, "*") or wanted in name:
                if wanted is not None:
                    self.matched.add(wanted)
                return self._evaluate(key, scope, condition["value"], name, t)
        return None

    def _at(self, key: str, scope: Scope, values: list[Any], name: str, t: float | None) -> Any:
        points = [self._typed(key, scope, value) for value in values]
        if t is None and any(point != points[0] for point in points):
            self.graded.append(name)
        at = (t or 0.0) * (len(points) - 1)
        low = int(at)
        if not all(isinstance(p, int | float) and not isinstance(p, bool) for p in points):
            return points[low]
        share = at - low
        high = min(low + 1, len(points) - 1)
        return self._typed(key, scope, (1 - share) * points[low] + share * points[high])

    def _typed(self, key: str, scope: Scope, value: Any) -> Any:
        try:
            return self._types[key].validate_python(value)
        except ValidationError as failure:
            message = failure.errors(include_url=False)[0]["msg"]
            raise self.document.located.error(
                (*scope.path, key), f"{key}: {message[0].lower()}{message[1:]}, found {value!r}"
            ) from None

    def _missing(self, key: str, name: str, model: Reference | None) -> MixlabError:
        where = f" of {model}" if model is not None else ""
        return self.document.located.error(
            ("merge_method",),
            f"{self.method.name} needs {key!r}, which no parameters: give for {name}{where}",
        )


def _keys(method: MergeMethod) -> Iterator[str]:
    yield from map(spelled, method.shared.model_fields)
    yield from map(spelled, method.each.model_fields)
