"""Stored names placed in a model by transformers' own loading rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mixlab.checkpoint import TensorEntry, torch_dtype
from mixlab.models._anatomy import Anatomy
from mixlab.models.layout._group import Conversion, Group, natural
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SHOWN = 6


@dataclass(frozen=True)
class Placed:
    """What became of stored names.

    Args:
        groups: of the language model.
        others: stored names of other parts.
        unknown: stored names that the model has no place for; transformers leaves them unread.
    """

    groups: tuple[Group, ...]
    others: tuple[str, ...]
    unknown: tuple[str, ...]


class _Gathered:
    """Stored tensors that one rule turns into one target."""

    def __init__(self, converter: Any) -> None:
        self.converter = converter
        self.patterns: dict[str, str] = {}
        self.before: dict[str, str] = {}


def place_tensors(
    model: PreTrainedModel, anatomy: Anatomy, entries: Mapping[str, TensorEntry]
) -> Placed:
    """Find every stored tensor's place in the model as `from_pretrained` would.

    Args:
        model: on the meta device.

    Raises:
        MixlabError: two tensors have one place, or a conversion mixes the language model with
            other parts.
    """
    renames = _Renames(model)
    plain: dict[str, list[str]] = {}
    gathered: dict[str, _Gathered] = {}
    unknown = []
    for stored in natural(list(entries)):
        target, converter, pattern, before = renames(stored)
        if target is None:
            unknown.append(stored)
        elif converter is None:
            plain.setdefault(target, []).append(stored)
        else:
            one = gathered.setdefault(target, _Gathered(converter))
            one.patterns[stored], one.before[stored] = pattern, before
    _check_single(plain, gathered)
    groups = [
        Group((stored[0],), (anatomy.names[target],))
        for target, stored in plain.items()
        if target in anatomy.names
    ]
    others = [stored[0] for target, stored in plain.items() if target not in anatomy.names]
    for target, one in gathered.items():
        group = _converted(model, anatomy, entries, target, one)
        if group is None:
            others += one.patterns
        else:
            groups.append(group)
    return Placed(tuple(groups), tuple(others), tuple(unknown))


class _Renames:
    """Name of a stored tensor -> its place, by the model's rules."""

    def __init__(self, model: PreTrainedModel) -> None:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter, WeightRenaming

        rules = get_model_conversion_mapping(model)
        self._renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
        self._converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
        self._of = {p: rule for rule in self._converters for p in rule.source_patterns}
        self._prefix = model.base_model_prefix
        self._names = model.state_dict()

    def __call__(self, stored: str) -> tuple[str | None, Any, str, str]:
        """Target, converter (None for a plain rename), its pattern, and the name before it."""
        from transformers.core_model_loading import apply_renamings, rename_source_key

        target, pattern = rename_source_key(
            stored, self._renamings, self._converters, self._prefix, self._names
        )
        if target not in self._names and stored in self._names:
            target, pattern = rename_source_key(stored, [], [], self._prefix, self._names)
        if target not in self._names:
            return None, None, "", ""
        if pattern is None:
            return target, None, "", ""
        before = apply_renamings(stored, self._renamings)
        return target, self._converter(before, pattern), pattern, before

    def _converter(self, name: str, pattern: str) -> Any:
        # Parts of a model may have rules of one pattern; the first that takes the name is meant.
        for rule in self._converters:
            if pattern in rule.source_patterns and rule.rename_source_key(name)[1] == pattern:
                return rule
        return self._of[pattern]


def _check_single(plain: Mapping[str, Sequence[str]], gathered: Mapping[str, _Gathered]) -> None:
    twice = {target: stored for target, stored in plain.items() if len(stored) > 1}
    twice |= {t: [*plain[t], *one.patterns] for t, one in gathered.items() if t in plain}
    if twice:
        shown = [f"{' and '.join(stored[:3])} are both {t}" for t, stored in twice.items()]
        raise MixlabError(
            f"{len(twice)} tensors are stored twice under other names: "
            f"{'; '.join(shown[:_SHOWN])}; remove the stale ones, or save the model again"
        )


def _converted(
    model: PreTrainedModel,
    anatomy: Anatomy,
    entries: Mapping[str, TensorEntry],
    target: str,
    one: _Gathered,
) -> Group | None:
    shapes = {name: entries[name].shape for name in one.patterns}
    conversion = Conversion(model, one.converter, target, one.patterns, one.before, shapes)
    try:
        made = conversion.in_memory(
            {
                name: torch.empty(shape, dtype=torch_dtype(entries[name].dtype), device="meta")
                for name, shape in shapes.items()
            }
        )
    except Exception as error:  # transformers' operations raise whatever torch does
        raise MixlabError(
            f"{', '.join(list(shapes)[:3])}{', …' if len(shapes) > 3 else ''} cannot be made into "
            f"{target}: {error}; are tensors missing?"
        ) from error
    inside = [name for name in made if name in anatomy.names]
    if not inside:
        return None
    apart = [name for name in made if name not in anatomy.names]
    if apart:
        raise MixlabError(
            f"{', '.join(list(shapes)[:3])} hold {inside[0]} of the language model together with "
            f"{apart[0]}, which is not"
        )
    conversion.names = {name: anatomy.names[name] for name in made}
    return Group(tuple(one.patterns), tuple(conversion.names.values()), conversion)
