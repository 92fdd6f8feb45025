"""Merging of state dicts and modules in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mixlab.checkpoint import count_layers, distinct_tensors, tensor_place
from mixlab.merge._method import Context, MergeMethod, get_method
from mixlab.merge._threads import Job, run_jobs, thread_count
from mixlab.merge.live._fitting import as_state, misfits, select, tied_names
from mixlab.merge.live._writing import mixing_jobs
from mixlab.merge.schedules._settings import TensorSettings
from mixlab.spec import MixlabError, nearest

State = Mapping[str, torch.Tensor]
StateLike = State | torch.nn.Module
# Bytes below which a tensor is no job of its own: threads would wait for each other's Python.
_SMALL = 1 << 16


@torch.no_grad()
def merge_state_dicts(
    method: str | MergeMethod,
    models: Sequence[StateLike] | Mapping[str, StateLike],
    *,
    base: StateLike | str | None = None,
    settings: Mapping[str, Any] | None = None,
    target: int | str = 0,
    scope: str | Sequence[str] | None = None,
    seed: int = 0,
    dtype: torch.dtype | None = None,
    threads: int | None = None,
    strict: bool = True,
    progress: Callable[[int, int], None] | None = None,
    extras: Sequence[StateLike] = (),
    notes: list[str] | None = None,
) -> dict[str, torch.Tensor]:
    """Merge models in memory, tensor by tensor, under the names of the target.

    Random bits depend on (seed, key of the model, tensor name, element) alone: neither the order
    of names nor the number of threads changes a bit. Nothing is recorded for autograd.

    Args:
        method: a registered method, or its name.
        models: state dicts or modules; the keys of a mapping are the keys of random bits (and
            positions are those of a sequence).
        base: what the method measures from: a state dict, a module, or a key of `models`, which
            is then not merged itself.
        settings: of the method. Any may be a schedule (`Schedule.parse`); a list for a per-model
            setting has one value or schedule for each model.
        target: the model whose names, order, dtypes and unmixed tensors the result has: a key, an
            index among those that are merged, or "base".
        scope: globs over full names; nothing else is mixed. All by default.
        dtype: of the floating tensors of the result; by default each keeps the target's.
        threads: tensors at once on the CPU; by default one for each core.
        strict: whether names that some model lacks are an error; otherwise the target's tensors
            are kept, and names that the target lacks are left out.
        progress: called with bytes of the result that are done, and all of them.
        extras: one state dict for each model where the method takes a further tensor
            (`fisher`: importance).
        notes: the method's remarks are appended, sorted.

    Returns:
        Name -> tensor in the target's order. Mixed tensors are new. Tensors that neither `scope`
        nor the schedules name, and integer buffers, **are the target's own** (the same storage,
        nothing is copied): clone them before writing to them. Tied tensors are merged once, under
        the name of the embedding, and stay tied.

    Raises:
        MixlabError: names, shapes or dtypes differ (all are listed), integer buffers differ, a
            pattern or rule matches nothing, or a setting is out of range.
    """
    method = get_method(method) if isinstance(method, str) else method
    if dtype is not None and not dtype.is_floating_point:
        raise MixlabError(f"dtype is {dtype}; merged tensors need a floating dtype")
    roles = _roles(method, models, base, target, extras)
    own, states, keys, origin = roles.target, roles.models, roles.keys, roles.base
    distinct = distinct_tensors(own)
    chosen = TensorSettings(method, settings or {}, len(states))
    mixed = select(distinct, scope)
    layers = count_layers(own)
    unmatched = chosen.unmatched(mixed, layers)
    if unmatched:
        raise MixlabError("; ".join(unmatched))
    plan: dict[str, Mapping[str, Any]] = {}
    for name in mixed:
        resolved = chosen.of(name, tensor_place(name).layer, layers)
        if resolved is not None:
            plan[name] = resolved
    tied = tied_names(own, distinct)
    plan = misfits(plan, own, roles.labelled(), scope, strict, tied)

    result: dict[str, torch.Tensor] = {}
    remarks: list[str] = []

    def mixing(name: str) -> list[Job]:
        context = Context(name, tuple(keys), seed, tensor_place(name).layer, layers, remarks)
        tensors = [state[name].detach() for state in states]
        from_base = None if origin is None else origin[name].detach()
        further = [extra[name].detach() for extra in roles.extras]
        return mixing_jobs(
            method, tensors, from_base, result[name], plan[name], context=context, extras=further
        )

    jobs: list[Job] = []
    small: list[str] = []
    for name, tensor in distinct.items():
        wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        if name not in plan or not tensor.is_floating_point():
            result[name] = tensor.detach().to(wanted)
            continue
        result[name] = torch.empty(tensor.shape, dtype=wanted, device=tensor.device)
        if result[name].nbytes < _SMALL:
            small.append(name)
        else:
            jobs += mixing(name)
    if small:
        jobs.append((sum(result[name].nbytes for name in small), lambda: _all(small, mixing)))

    count = thread_count(threads) if all(t.device.type == "cpu" for t in result.values()) else 1
    finished, total = 0, sum(size for size, _ in jobs)

    def done(size: int) -> None:
        nonlocal finished
        finished += size
        if progress is not None:
            progress(finished, total)

    run_jobs(jobs, count, done)
    if notes is not None:
        notes += sorted(remarks)
    return {name: result[tied.get(name, name)] for name in own}


def _all(names: Sequence[str], mixing: Callable[[str], list[Job]]) -> None:
    """One job of many small tensors; each is prepared when its turn comes, and forgotten."""
    for name in names:
        for _, work in mixing(name):
            work()


@dataclass(frozen=True)
class _Roles:
    """Who is who: merged models with their keys, base, extras, and the target among them."""

    models: list[State]
    keys: list[str]
    base: State | None
    extras: list[State]
    target: State

    def labelled(self) -> list[tuple[str, State]]:
        """All of them by what an error calls them."""
        found = list(zip(self.keys, self.models, strict=True))
        found += [("base", self.base)] if self.base is not None else []
        return found + [(f"{k}'s extra", e) for k, e in zip(self.keys, self.extras, strict=False)]


def _roles(
    method: MergeMethod,
    models: Sequence[StateLike] | Mapping[str, StateLike],
    base: StateLike | str | None,
    target: int | str,
    extras: Sequence[StateLike],
) -> _Roles:
    states, keys = _keyed(models)
    origin: State | None = None
    if isinstance(base, str):
        at = _index(base, keys, "base")
        origin = states.pop(at)
        keys.pop(at)
    elif base is not None:
        origin = as_state(base)
    if isinstance(target, str) and target not in keys and target in ("base", base):
        if origin is None:
            raise MixlabError("the target is the base, but no base is given")
        own = origin
    else:
        own = states[_index(target, keys, "target")]
    method.check(len(states), origin is not None)
    if len(extras) != (len(states) if method.extra else 0):
        taken = f"`{method.extra}` of each of the {len(states)} models as" if method.extra else "no"
        raise MixlabError(f"{method.name} takes {taken} `extras`; found {len(extras)}")
    return _Roles(states, keys, origin, [as_state(extra) for extra in extras], own)


def _keyed(
    models: Sequence[StateLike] | Mapping[str, StateLike],
) -> tuple[list[State], list[str]]:
    if isinstance(models, torch.nn.Module) or not models:
        raise MixlabError("expected a sequence or mapping of state dicts or modules")
    if isinstance(models, Mapping):
        if any(isinstance(model, torch.Tensor) for model in models.values()):
            raise MixlabError("this is one state dict; expected several, in a list or by key")
        return [as_state(model) for model in models.values()], list(models)
    return [as_state(model) for model in models], [str(at) for at in range(len(models))]


def _index(which: int | str, keys: list[str], what: str) -> int:
    if isinstance(which, str):
        if which not in keys:
            raise MixlabError(f"{what} {which!r} is no model{nearest(which, keys)}")
        return keys.index(which)
    if not 0 <= which < len(keys):
        raise MixlabError(f"{what} is {which}; there are {len(keys)} models, counted from 0")
    return which
