"""Methods by name: the decorator that makes a formula one, and the look-up."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import torch

from mixlab.merge._method._context import Context
from mixlab.merge._method._method import Base, MergeMethod
from mixlab.merge._method._settings import settings_models
from mixlab.spec import MixlabError, nearest, register

P = ParamSpec("P")

_METHODS: dict[str, MergeMethod] = {}


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
        name, signature = formula.__name__, inspect.signature(formula)
        _check_signature(name, signature, extra)
        shared, each = settings_models(name, formula, signature, extra)
        known = _METHODS.get(name)
        if known is not None and _origin(known.formula) != _origin(formula):
            raise MixlabError(
                f"merge method {name!r} is defined by {_origin(known.formula)} already; choose "
                "another name"
            )

        @wraps(formula)
        def function(*args: P.args, **kwargs: P.kwargs) -> torch.Tensor:
            values = dict(signature.bind(*args, **kwargs).arguments)
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


def _check_signature(name: str, signature: inspect.Signature, extra: str) -> None:
    parameters = list(signature.parameters.values())
    if [parameter.name for parameter in parameters[:2]] != ["tensors", "base"]:
        raise MixlabError(f"merge method {name}: expected `{name}(tensors, base, *, …)`")
    for one in parameters[2:]:
        if one.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise MixlabError(f"merge method {name}: put `*` before {one.name!r}, a setting")
        if one.annotation is inspect.Parameter.empty and one.name not in ("context", extra):
            raise MixlabError(f"merge method {name}: setting {one.name!r} needs a type")


def _origin(formula: Callable[..., Any]) -> str:
    return f"{formula.__module__}.{formula.__qualname__}"
