"""What a merge method is: a formula with typed settings, known by name to spec, CLI and sweeps."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union

import numpy as np
import torch
from pydantic import Field, ValidationError, create_model

from mixlab.spec import MixlabError, Settings, nearest, register

P = ParamSpec("P")
T = TypeVar("T")
# A setting that each merged model (not the base) may have its own value of; one value is for all.
PerModel = Union[T, Sequence[T]]  # noqa: UP007  (generic alias, Python 3.11)
Share = Annotated[float, Field(ge=0, le=1)]
Tensors = Sequence[torch.Tensor]
Base = Literal["required", "optional", "none"]
Span = Literal["element", "tensor"]


@dataclass(frozen=True)
class Context:
    """What a formula may know beside the numbers.

    Args:
        name: of the output tensor; with `seed` and `models` it keys every random bit.
        models: a stable key of each merged model, in order; positions when empty.
        seed: recorded by every merge.
        layer, layers: index of the block that the tensor stands in (None outside), and how many.
        notes: what the report should count, appended by the formula ("handed to lerp").
    """

    name: str = ""
    models: tuple[str, ...] = ()
    seed: int = 0
    layer: int | None = None
    layers: int = 0
    notes: list[str] = field(default_factory=list, compare=False)

    def key(self, index: int) -> str:
        """The random key of merged model `index` (-1: the base)."""
        if index < 0:
            return "base"
        return self.models[index] if self.models else str(index)


# (merged tensors, base or None, out, settings, context, start): writes `out`. All are contiguous on
# the CPU, float32, bfloat16 or float16 each, of one shape. A kernel of span "element" may be given
# any flat part of a tensor, which begins at element `start`; one of span "tensor" is given all of
# it, in its shape. Mathematics in float32, one rounding at the end. No random bit may depend on
# how the tensor was cut.
Kernel = Callable[
    [Tensors, "torch.Tensor | None", torch.Tensor, Mapping[str, Any], Context, int], None
]


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
        return _KERNELS.get(self.name)

    def settings(self, given: Mapping[str, Any], count: int) -> dict[str, Any]:
        """Validated settings with defaults; per-model ones as tuples of `count` values.

        Keys may be spelled as in recipes (`lambda`) or as in Python (`lambda_`).

        Raises:
            MixlabError: an unknown key, a value out of range, or a list of another length.
        """
        own = {spelled(key): value for key, value in given.items()}
        known = {spelled(k) for k in (*self.shared.model_fields, *self.each.model_fields)}
        for key in own:
            if key not in known:
                raise MixlabError(f"{self.name}: unknown setting {key!r}{nearest(key, known)}")
        each = {spelled(k): k for k in self.each.model_fields}
        resolved = _validated(
            self.name, self.shared, {k: v for k, v in own.items() if k not in each}
        )
        rows: list[dict[str, Any]] = []
        for index in range(count):
            row = {}
            for key in each:
                if key not in own:
                    continue
                value = own[key]
                if isinstance(value, Sequence) and not isinstance(value, str):
                    if len(value) != count:
                        raise MixlabError(
                            f"{self.name}: {key} has {len(value)} values for {count} models; give "
                            "one for each, or a single one for all"
                        )
                    value = value[index]
                row[key] = value
            rows.append(_validated(self.name, self.each, row))
        for field_name in each.values():
            resolved[field_name] = tuple(row[field_name] for row in rows)
        return resolved

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
        for other in (*everything, *extras):
            if not isinstance(other, torch.Tensor):
                raise MixlabError(f"{where}found {type(other).__name__}; expected a tensor")
            if other.layout != torch.strided or other.is_quantized:
                raise MixlabError(
                    f"{where}the tensor is quantised or sparse; give it dense (`dequantize`, "
                    "`to_dense`)"
                )
            if other.shape != first.shape:
                raise MixlabError(
                    f"{where}shapes differ: {list(first.shape)} and {list(other.shape)}"
                )
            if other.device != first.device:
                raise MixlabError(f"{where}devices differ: {first.device} and {other.device}")
        if not all(tensor.is_floating_point() for tensor in everything):
            return _equal_integers(everything, where)
        dtype = dtype or tensors[0].dtype
        if first.is_meta or not first.numel():
            return torch.empty(first.shape, dtype=dtype, device=first.device)
        dtypes = {tensor.dtype for tensor in (*everything, *extras)}
        widest = torch.float64 if torch.float64 in dtypes else torch.float32
        fast = self.kernel
        if (
            fast is not None
            and not plain
            and first.device.type == "cpu"
            and {*dtypes, dtype} <= _FAST
            and not (torch.is_grad_enabled() and any(t.requires_grad for t in everything))
        ):
            out = torch.empty(first.shape, dtype=dtype)
            with torch.no_grad():
                fast[0](
                    [t.detach().contiguous() for t in tensors],
                    None if base is None else base.detach().contiguous(),
                    out,
                    settings,
                    context,
                    0,
                )
            return out
        wide = [t.to(widest) for t in tensors]
        arguments = dict(settings)
        if self.extra:
            arguments[self.extra] = tuple(t.to(widest) for t in extras)
        if "context" in inspect.signature(self.formula).parameters:
            arguments["context"] = context
        wide_base = None if base is None else base.to(widest)
        result = self.formula(wide, wide_base, **arguments)
        if self.identity and wide_base is not None:
            result = _keep_infinities(result, [wide_base, *wide])
        result = result.to(dtype)
        # A formula may hand an input or a view of one through; a caller owns what it gets.
        places = {tensor.untyped_storage().data_ptr() for tensor in (*everything, *extras)}
        return result.clone() if result.untyped_storage().data_ptr() in places else result


_METHODS: dict[str, MergeMethod] = {}
_KERNELS: dict[str, tuple[Kernel, Span]] = {}
_LARGEST = torch.finfo(torch.float32).max
_FAST = {torch.float32, torch.bfloat16, torch.float16}


def merge_method(
    *,
    source: str,
    base: Base,
    models: tuple[int, int | None] = (1, None),
    identity: bool = False,
    symmetric: bool = False,
    random: bool = False,
    extra: str = "",
) -> Callable[[Callable[P, torch.Tensor]], Callable[P, torch.Tensor]]:
    """Register a formula `f(tensors, base, *, settings…, context=Context())` under its name.

    Its keyword arguments are its settings: types and limits come from the annotations
    (`PerModel[Share]` for what each model has its own value of). The decorated function validates,
    widens half precision to float32, runs the fast path where there is one, and rounds once.
    `extra` names a keyword that is no setting but a further tensor for each merged model; such a
    method has no fast path. Recipes in this process then know the method by its name; defined
    again in the same place (a cell run twice), it takes the place of the first.

    Raises:
        MixlabError: another method has the name, or the signature is another.
    """

    def decorate(formula: Callable[P, torch.Tensor]) -> Callable[P, torch.Tensor]:
        name = formula.__name__
        _check_signature(name, formula, extra)
        shared, each = _settings_models(name, formula, extra)
        known = _METHODS.get(name)
        if known is not None and _origin(known.formula) != _origin(formula):
            raise MixlabError(
                f"merge method {name!r} is defined by {_origin(known.formula)} already; choose "
                "another name"
            )

        @wraps(formula)
        def function(*args: P.args, **kwargs: P.kwargs) -> torch.Tensor:
            bound = inspect.signature(formula).bind(*args, **kwargs)
            values = dict(bound.arguments)
            tensors = values.pop("tensors")
            if isinstance(tensors, torch.Tensor):  # its rows would pass for models
                raise MixlabError(f"{name}: expected a sequence of tensors; put this one in a list")
            tensors = list(tensors)
            from_base = values.pop("base", None)
            context = values.pop("context", Context())
            extras = list(values.pop(extra)) if extra else []
            method = _METHODS[name]
            method.check(len(tensors), from_base is not None)
            resolved = method.settings(values, len(tensors))
            return method.apply(tensors, from_base, resolved, context, extras=extras)

        register(f"merge.{name}", shared)
        register(f"merge.{name}.model", each)
        _METHODS[name] = MergeMethod(
            name,
            function,
            formula,
            base,
            models,
            identity,
            symmetric,
            random,
            shared,
            each,
            source,
            extra,
        )
        return function

    return decorate


def kernel(*names: str, span: Span) -> Callable[[Kernel], Kernel]:
    """Make a fast path known for methods of these names."""

    def decorate(function: Kernel) -> Kernel:
        for name in names:
            _KERNELS[name] = (function, span)
        return function

    return decorate


def get_method(name: str) -> MergeMethod:
    """The method registered under `name`.

    Raises:
        MixlabError: there is none; the nearest name is shown.
    """
    try:
        return _METHODS[name]
    except KeyError:
        raise MixlabError(f"no merge method {name!r}{nearest(name, _METHODS)}") from None


def method_names() -> list[str]:
    """Names of all registered methods, sorted."""
    return sorted(_METHODS)


def spelled(key: str) -> str:
    """A setting's name as recipes spell it: `lambda_` is `lambda` there."""
    return key.rstrip("_")


def _settings_models(
    name: str, formula: Callable[..., Any], extra: str
) -> tuple[type[Settings], type[Settings]]:
    hints = typing.get_type_hints(formula, include_extras=True)
    shared: dict[str, Any] = {}
    each: dict[str, Any] = {}
    for key, parameter in inspect.signature(formula).parameters.items():
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


def _check_signature(name: str, formula: Callable[..., Any], extra: str) -> None:
    parameters = list(inspect.signature(formula).parameters.values())
    if [parameter.name for parameter in parameters[:2]] != ["tensors", "base"]:
        raise MixlabError(f"merge method {name}: expected `{name}(tensors, base, *, …)`")
    for one in parameters[2:]:
        if one.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise MixlabError(f"merge method {name}: put `*` before {one.name!r}, a setting")
        if one.annotation is inspect.Parameter.empty and one.name not in ("context", extra):
            raise MixlabError(f"merge method {name}: setting {one.name!r} needs a type")


def _origin(formula: Callable[..., Any]) -> str:
    return f"{formula.__module__}.{formula.__qualname__}"


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


def _keep_infinities(result: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    """Where all hold one infinity, as masks do, nothing moved, though inf - inf is NaN."""
    with torch.no_grad():
        if not bool(result.isnan().any()):
            return result
        still = tensors[0].isinf()
        for other in tensors[1:]:
            still &= other == tensors[0]
    return torch.where(still, tensors[0], result)


def _equal_integers(tensors: Tensors, where: str) -> torch.Tensor:
    first = tensors[0]
    for other in tensors[1:]:
        if other.dtype != first.dtype:
            raise MixlabError(f"{where}{first.dtype} and {other.dtype} cannot be averaged")
        if not first.is_meta and not torch.equal(first, other):
            raise MixlabError(f"{where}{first.dtype} values differ and cannot be averaged")
    return first.clone()
