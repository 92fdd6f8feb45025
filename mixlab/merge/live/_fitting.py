"""Whether tensors of several models fit together; everything that does not is told at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import torch

from mixlab.checkpoint import distinct_tensors
from mixlab.merge.schedules._rules import near_names
from mixlab.spec import MixlabError

T = TypeVar("T")
State = Mapping[str, torch.Tensor]
_SHOWN = 30


def as_state(model: State | torch.nn.Module) -> State:
    """Live tensors of a module, or the mapping itself.

    Raises:
        MixlabError: neither, or a mapping of something else than tensors.
    """
    state = model.state_dict(keep_vars=True) if isinstance(model, torch.nn.Module) else model
    if not isinstance(state, Mapping) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in state.items()
    ):
        odd = (
            [n for n, t in state.items() if not isinstance(t, torch.Tensor)]
            if isinstance(state, Mapping)
            else []
        )
        why = (
            f" ({odd[0]!r} is none; is the module quantised?)" if odd and state is not model else ""
        )
        raise MixlabError(
            f"{type(model).__name__} is no model; expected a module, or a mapping of names to "
            f"tensors{why}"
        )
    return state


def select(names: Iterable[str], scope: str | Sequence[str] | None) -> list[str]:
    """The names that some glob of `scope` fits; all where it is None.

    Raises:
        MixlabError: a glob fits none; near names are shown.
    """
    names = list(names)
    if scope is None:
        return names
    patterns = _patterns(scope)
    dead = [p for p in patterns if not any(fnmatchcase(name, p) for name in names)]
    if dead or not patterns:
        told = [f"scope {p!r} matches no tensor{near_names(p, names)}" for p in dead]
        raise MixlabError("; ".join(told) or "scope is empty; leave it out to mix everything")
    return [name for name in names if _fits(name, patterns)]


def tied_names(state: State, distinct: State | None = None) -> dict[str, str]:
    """Name -> the name under which `distinct_tensors` keeps its tensor, where they differ.

    Args:
        distinct: what `distinct_tensors` gave for `state`, where it is known.
    """
    distinct = distinct_tensors(state) if distinct is None else distinct
    others = {name: tensor for name, tensor in state.items() if name not in distinct}
    if not others:
        return {}
    by_place = {_place(tensor): name for name, tensor in distinct.items() if _place(tensor)}
    return {name: by_place[_place(tensor)] for name, tensor in others.items()}


def misfits(
    plan: Mapping[str, T],
    own: State,
    sides: Sequence[tuple[str, State]],
    scope: str | Sequence[str] | None,
    strict: bool,
    tied: Mapping[str, str],
) -> dict[str, T]:
    """`plan` without what some side lacks.

    Args:
        plan: by the names that are to be mixed, of tensors of `own`.
        own: the target.
        sides: all models, each with a label.
        scope: globs within which names that the target lacks count.
        strict: whether a name that is on one side only is an error.
        tied: `tied_names` of the target.

    Raises:
        MixlabError: listing every name, shape, dtype or integer value that does not fit.
    """
    wrong: list[str] = []
    lacking: set[str] = set()
    for label, state in sides:
        if state is own:
            continue
        for name in plan:
            if name not in state:
                lacking.add(name)
                if strict:
                    wrong.append(f"{name}: model {label} lacks it")
            else:
                wrong += _differences(name, own[name], state[name], label)
        for name, kept in tied.items():
            if kept in plan and name in state and kept in state:
                one, other = state[name], state[kept]
                if one is not other and not one.is_meta and not torch.equal(one, other):
                    wrong.append(f"{name}: tied to {kept} in the target, separate in model {label}")
        if strict:
            extra = [n for n in state if n not in own and _fits(n, scope)]
            wrong += [f"{n}: the target lacks it (model {label})" for n in extra]
    if wrong:
        more = f"\n  and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise MixlabError(
            f"the models do not fit in {len(wrong)} places; merge models of one architecture, or "
            "narrow `scope`, or pass strict=False to keep the target's:\n  "
            + "\n  ".join(wrong[:_SHOWN]) + more
        )  # fmt: skip
    return {name: value for name, value in plan.items() if name not in lacking}


def _patterns(scope: str | Sequence[str]) -> list[str]:
    return [scope] if isinstance(scope, str) else list(scope)


def _fits(name: str, scope: str | Sequence[str] | None) -> bool:
    return scope is None or any(fnmatchcase(name, pattern) for pattern in _patterns(scope))


def _place(tensor: torch.Tensor) -> tuple[object, ...] | None:
    if tensor.is_meta or not tensor.data_ptr():
        return None
    return (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride())


def _differences(name: str, mine: torch.Tensor, its: torch.Tensor, label: str) -> list[str]:
    if mine.shape != its.shape:
        return [f"{name}: {list(mine.shape)} in the target, {list(its.shape)} in model {label}"]
    if mine.is_floating_point() and its.is_floating_point():
        if mine.device != its.device:
            return [f"{name}: on {mine.device} in the target, on {its.device} in model {label}"]
        return []
    if mine.dtype != its.dtype:
        return [f"{name}: {mine.dtype} in the target, {its.dtype} in model {label}"]
    if mine.is_meta or its.is_meta or torch.equal(mine.cpu(), its.cpu()):
        return []
    return [f"{name}: {mine.dtype} values differ in model {label} and cannot be averaged"]
