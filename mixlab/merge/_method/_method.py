"""What a merge method is: a formula with typed settings, known by name to spec, CLI and sweeps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch

from mixlab.merge._method._applying import (
    check_tensors,
    equal_integers,
    run_formula,
    run_kernel,
    suits_kernel,
)
from mixlab.merge._method._context import Context, Tensors
from mixlab.merge._method._kernels import Kernel, Span, kernel_of
from mixlab.merge._method._settings import Resolver
from mixlab.spec import MixlabError, Settings

Base = Literal["required", "optional", "none"]


@dataclass(frozen=True)
class MergeMethod:
    """A registered method.

    Args:
        name: as in recipes.
        function: the public function on tensors, validated, rounded once.
        formula: the plain definition, on tensors of one floating dtype (float32 or float64).
        base: whether task vectors are measured from a base.
        models: the smallest and largest number of merged models, the base not counted.
        identity: merging a model with itself returns it bit for bit.
        symmetric: permuting the models together with their settings changes nothing but rounding.
        random: uses random bits (keyed by seed, model, tensor and element).
        shared, each: settings models, of the whole method and of each merged model.
        source: paper, equation or code that defines it.
        extra: the keyword under which the formula takes one further tensor for each merged model
            (`importance`), of the same shape; empty where it takes none.
    """

    name: str
    function: Callable[..., torch.Tensor]
    formula: Callable[..., torch.Tensor]
    base: Base
    models: tuple[int, int | None]
    identity: bool
    symmetric: bool
    random: bool
    shared: type[Settings]
    each: type[Settings]
    source: str
    extra: str = ""

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (self.formula.__doc__ or "").strip().partition("\n")[0]

    @property
    def kernel(self) -> tuple[Kernel, Span] | None:
        """The fast path and its span, where there is one."""
        return kernel_of(self.name)

    @cached_property
    def takes_context(self) -> bool:
        """Whether the formula has a `context`."""
        return "context" in inspect.signature(self.formula).parameters

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(self.name, self.shared, self.each)

    def settings(self, given: Mapping[str, Any], count: int) -> dict[str, Any]:
        """Validated settings with defaults; per-model ones as tuples of `count` values.

        Keys may be spelled as in recipes (`lambda`) or as in Python (`lambda_`).

        Raises:
            MixlabError: an unknown key, a value out of range, or a list of another length.
        """
        return self._resolver.resolve(given, count)

    def check(self, count: int, has_base: bool) -> None:
        """Raise MixlabError unless the method takes `count` models with or without a base."""
        low, high = self.models
        if count < low or (high is not None and count > high):
            wanted = (
                f"{low}"
                if high == low
                else f"{low} or more"
                if high is None
                else f"{low} to {high}"
            )
            raise MixlabError(
                f"{self.name} merges {wanted} models beside the base; found {count}"
                if self.base != "none"
                else f"{self.name} merges {wanted} models; found {count}"
            )
        if self.base == "required" and not has_base:
            raise MixlabError(f"{self.name} measures from a base; give `base`")
        if self.base == "none" and has_base:
            raise MixlabError(f"{self.name} has no base; list it among the models instead")

    def apply(
        self,
        tensors: Tensors,
        base: torch.Tensor | None,
        settings: Mapping[str, Any],
        context: Context,
        *,
        extras: Tensors = (),
        dtype: torch.dtype | None = None,
        plain: bool = False,
    ) -> torch.Tensor:
        """Merge whole tensors with settings that `settings()` resolved; checks shapes and dtypes.

        Args:
            extras: one for each of `tensors` where the method has an `extra`, else none.
            dtype: of the result; that of `tensors[0]` by default.
            plain: the definition even where there is a fast path.

        Raises:
            MixlabError: shapes or devices differ, integer tensors differ, or extras are missing.
        """
        everything = [*tensors, *([] if base is None else [base])]
        first = everything[0]
        where = f"{context.name}: " if context.name else ""
        wanted = len(tensors) if self.extra else 0
        if len(extras) != wanted:
            raise MixlabError(
                f"{where}{self.name} takes {wanted} tensors of {self.extra or 'extras'} for "
                f"{len(tensors)} models; found {len(extras)}"
            )
        check_tensors([*everything, *extras], where)
        if not all(tensor.is_floating_point() for tensor in everything):
            return equal_integers(everything, where)
        dtype = dtype or tensors[0].dtype
        if first.is_meta or not first.numel():
            return torch.empty(first.shape, dtype=dtype, device=first.device)
        fast = None if plain or extras else self.kernel
        if fast is not None and suits_kernel(everything, dtype):
            return run_kernel(fast[0], tensors, base, settings, context, dtype)
        arguments = {**settings, "context": context} if self.takes_context else settings
        further = {self.extra: extras} if self.extra else {}
        return run_formula(self.formula, tensors, base, arguments, further, dtype, self.identity)
