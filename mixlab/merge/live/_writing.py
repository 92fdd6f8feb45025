"""Jobs that mix into a tensor which exists already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from mixlab.merge._method import Context, MergeMethod, get_method
from mixlab.merge._threads import Job
from mixlab.spec import MixlabError

# Elements that one job mixes where a kernel takes parts, so that one large table keeps all busy.
PIECE = 1 << 22


def mixing_jobs(
    method: MergeMethod | str,
    tensors: Sequence[torch.Tensor],
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    *,
    context: Context | None = None,
    extras: Sequence[torch.Tensor] = (),
) -> list[Job]:
    """One job, or one for every piece where a kernel takes parts of a tensor.

    Args:
        method, tensors, base, settings, context, extras: as for `MergeMethod.apply`; all detached.
        out: of their shape, any floating dtype; it may be part of a live model, but shares no
            memory with the inputs. Where there is a kernel, it is written without a copy between.
    """
    if isinstance(method, str):
        method = get_method(method)
    context = context or Context()
    everything = [*tensors, *([] if base is None else [base]), out]
    item, total = out.element_size(), out.numel()
    fast = method.kernel if all(map(_suits_kernels, everything)) else None
    if fast is None:

        def plain() -> None:
            found = method.apply(tensors, base, settings, context, extras=extras, dtype=out.dtype)
            if not out.is_meta:
                out.copy_(found)

        return [(total * item, partial(_run, context.name, plain))]
    kernel, span = fast
    if span == "tensor" or 0 < total <= PIECE:
        return [
            (
                total * item,
                partial(_run, context.name, kernel, tensors, base, out, settings, context, 0),
            )
        ]
    flat, to = [tensor.view(-1) for tensor in tensors], out.view(-1)
    origin = None if base is None else base.view(-1)

    def piece(start: int) -> Job:
        part = slice(start, start + PIECE)
        mine = None if origin is None else origin[part]
        given = ([t[part] for t in flat], mine, to[part], settings, context, start)
        return (min(PIECE, total - start) * item, partial(_run, context.name, kernel, *given))

    return [piece(start) for start in range(0, total, PIECE)]


def _suits_kernels(tensor: torch.Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and tensor.dtype in (torch.float32, torch.bfloat16, torch.float16)
    )


def _run(name: str, work: Callable[..., None], *given: Any) -> None:
    """Call; errors name the tensor. Nothing is recorded for autograd, in this thread neither."""
    try:
        with torch.no_grad():
            work(*given)
    except MixlabError as error:
        if name in str(error):
            raise
        raise MixlabError(f"{name}: {error}") from error
