"""Stored tensors that become tensors of the language model together, and the way back."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Tensors = dict[str, "torch.Tensor"]


@dataclass(frozen=True)
class Group:
    """Some tensors of a file and what they are in the stand-alone LM.

    Args:
        stored: their names in the file, in natural order.
        names: backbone names; one, of the same bytes, where nothing is converted.
        conversion: how to make one from the other; None for the same bytes under another name.
    """

    stored: tuple[str, ...]
    names: tuple[str, ...]
    conversion: Conversion | None = None


class Conversion:
    """One `WeightConverter` of transformers at work on one group (fused experts, say).

    Args:
        model: on the meta device; conversions ask it for shapes.
        converter: transformers' rule, never used itself, only copies of it.
        target: name that the rule is known by in the model.
        patterns: stored name -> the rule's source pattern that it fits.
        before: stored name -> its name as the rule meets it, renamed but not converted.
        shapes: stored name -> shape.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        converter: Any,
        target: str,
        patterns: Mapping[str, str],
        before: Mapping[str, str],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        self._model, self._converter, self._target = model, converter, target
        self._patterns, self._before, self._shapes = patterns, before, shapes
        self.names: dict[str, str] = {}

    def in_memory(self, tensors: Mapping[str, torch.Tensor]) -> Tensors:
        """From stored tensors to those of the model, under its own names."""
        rule = copy.deepcopy(self._converter)
        for name, pattern in self._patterns.items():
            rule.add_tensor(self._target, name, pattern, tensors[name])
        return _single(rule.convert(self._target, model=self._model, config=self._model.config))

    def forward(self, tensors: Mapping[str, torch.Tensor]) -> Tensors:
        """From stored tensors to backbone tensors."""
        return {self.names[name]: tensor for name, tensor in self.in_memory(tensors).items()}

    @property
    def signature(self) -> Hashable:
        """Equal where two groups of equal backbone names hold equal tensors in equal order."""
        rule = self._converter
        operations = tuple(
            (type(one).__name__, *sorted((k, str(v)) for k, v in vars(one).items()))
            for one in rule.operations
        )
        return (
            tuple(sorted(self.names.values())),
            tuple(rule.source_patterns),
            tuple(rule.target_patterns),
            operations,
            tuple((self._patterns[name], self._shapes[name]) for name in self._patterns),
        )

    def rows(self) -> dict[str, tuple[int, int]] | None:
        """Which rows each stored tensor has of the one that they are laid end to end in.

        None where more is done than that.
        """
        operations = self._converter.operations
        if [type(one).__name__ for one in operations] != ["Concatenate"] or operations[0].dim != 0:
            return None
        ordered = sorted(
            self._patterns, key=lambda n: self._converter.source_patterns.index(self._patterns[n])
        )
        found, at = {}, 0
        for name in ordered:
            found[name] = (at, at + self._shapes[name][0])
            at += self._shapes[name][0]
        return found

    def backward(self, tensors: Mapping[str, torch.Tensor]) -> Tensors:
        """From backbone tensors to stored ones.

        Raises:
            MixlabError: transformers cannot undo the conversion.
        """
        own = {inside: tensors[outside] for inside, outside in self.names.items()}
        pieces = self.rows()
        if pieces is not None:
            whole = next(iter(own.values()))
            return {name: whole[a:b].contiguous() for name, (a, b) in pieces.items()}
        try:
            made = self._reversed(own)
        except (ValueError, NotImplementedError, RuntimeError, KeyError, AttributeError) as error:
            raise MixlabError(
                f"{', '.join(list(self._patterns)[:3])}: transformers cannot undo "
                f"{self._converter}: {error}"
            ) from error
        return {self._stored(name): tensor for name, tensor in made.items()}

    def _reversed(self, own: Tensors) -> Tensors:
        from transformers.core_model_loading import apply_converters

        rule = copy.deepcopy(self._converter).reverse_transform()
        rule.operations = [one for one in map(self._settled, rule.operations) if one is not None]
        if not rule.operations:
            return {next(iter(self._before.values())): next(iter(own.values()))}
        first = ""
        for name, tensor in own.items():
            target, pattern = apply_converters(name, [rule])
            if pattern is None:
                raise ValueError(f"{name} fits none of its patterns")
            first = first or target
            rule.add_tensor(target, name, pattern, tensor)
        return _single(rule.convert(first, model=self._model, config=self._model.config))

    def _settled(self, operation: Any) -> Any:
        """A transposition that depends on shapes, as it was done on the way in."""
        if type(operation).__name__ != "Transpose" or not operation.check_dims:
            return operation
        inside = self._model.get_parameter(self._target).shape
        if tuple(inside) == tuple(next(iter(self._shapes.values()))):
            return None
        return type(operation)(operation.dim0, operation.dim1)

    def _stored(self, name: str) -> str:
        for stored, before in self._before.items():
            if before == name:
                return stored
        # The model's prefix is added or taken away after conversion.
        near = [
            stored
            for stored, before in self._before.items()
            if before.endswith(f".{name}") or name.endswith(f".{before}")
        ]
        if len(near) != 1:
            raise MixlabError(f"{name}: no stored tensor of this group is that: {self._before}")
        return near[0]


def _single(made: Mapping[str, Any]) -> Tensors:
    return {name: one[0] if isinstance(one, list) else one for name, one in made.items()}


def natural(names: Sequence[str]) -> list[str]:
    """Names in the order in which transformers gathers them: expert 2 before expert 10."""
    from transformers.core_model_loading import dot_natural_key

    return sorted(names, key=dot_natural_key)
