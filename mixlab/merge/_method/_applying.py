"""A formula applied to whole tensors: what fits, the fast path or the plain one, one rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from mixlab.merge._method._context import Context, Tensors
from mixlab.merge._method._kernels import KERNEL_DTYPES, Kernel
from mixlab.spec import MixlabError


def check_tensors(tensors: Tensors, where: str) -> None:
    """Raise MixlabError unless all are dense, of one shape, on one device; `where` begins it."""
    first = tensors[0]
    for other in tensors:
        if not isinstance(other, torch.Tensor):
            raise MixlabError(f"{where}found {type(other).__name__}; expected a tensor")
        if other.layout != torch.strided or other.is_quantized:
            raise MixlabError(
                f"{where}the tensor is quantised or sparse; give it dense (`dequantize`, "
                "`to_dense`)"
            )
        if other.shape != first.shape:
            raise MixlabError(f"{where}shapes differ: {list(first.shape)} and {list(other.shape)}")
        if other.device != first.device:
            raise MixlabError(f"{where}devices differ: {first.device} and {other.device}")


def equal_integers(tensors: Tensors, where: str) -> torch.Tensor:
    """A copy of integers that all agree on.

    Raises:
        MixlabError: they do not, or some are of another dtype.
    """
    first = tensors[0]
    for other in tensors[1:]:
        if other.dtype != first.dtype:
            raise MixlabError(f"{where}{first.dtype} and {other.dtype} cannot be averaged")
        if not first.is_meta and not torch.equal(first, other):
            raise MixlabError(f"{where}{first.dtype} values differ and cannot be averaged")
    return first.clone()


def suits_kernel(tensors: Tensors, dtype: torch.dtype) -> bool:
    """Whether a kernel may be given these, and a result of `dtype`."""
    return (
        tensors[0].device.type == "cpu"
        and dtype in KERNEL_DTYPES
        and all(tensor.dtype in KERNEL_DTYPES for tensor in tensors)
        and not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))
    )


def run_kernel(
    kernel: Kernel,
    tensors: Tensors,
    base: torch.Tensor | None,
    settings: Mapping[str, Any],
    context: Context,
    dtype: torch.dtype,
) -> torch.Tensor:
    """A new tensor of `dtype`, from whole inputs."""
    out = torch.empty(tensors[0].shape, dtype=dtype)
    with torch.no_grad():
        kernel(
            [tensor.detach().contiguous() for tensor in tensors],
            None if base is None else base.detach().contiguous(),
            out,
            settings,
            context,
            0,
        )
    return out


def run_formula(
    formula: Callable[..., torch.Tensor],
    tensors: Tensors,
    base: torch.Tensor | None,
    arguments: Mapping[str, Any],
    extras: Mapping[str, Tensors],
    dtype: torch.dtype,
    identity: bool,
) -> torch.Tensor:
    """A new tensor of `dtype`; the formula sees float32, or float64 where some input is that.

    Args:
        arguments: settings, and the context where the formula takes it.
        extras: the keyword of further tensors -> these.
        identity: whether what all inputs agree on comes back, infinities too.
    """
    given = [*tensors, *([] if base is None else [base]), *(t for e in extras.values() for t in e)]
    widest = torch.float64 if any(t.dtype == torch.float64 for t in given) else torch.float32
    wide = [tensor.to(widest) for tensor in tensors]
    wide_base = None if base is None else base.to(widest)
    further = {key: tuple(t.to(widest) for t in some) for key, some in extras.items()}
    result = formula(wide, wide_base, **arguments, **further)
    if identity and wide_base is not None:
        result = _keep_infinities(result, [wide_base, *wide])
    result = result.to(dtype)
    # A formula may hand an input or a view of one through; a caller owns what it gets.
    places = {tensor.untyped_storage().data_ptr() for tensor in given}
    return result.clone() if result.untyped_storage().data_ptr() in places else result


def _keep_infinities(result: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    """Where all hold one infinity, as masks do, nothing moved, though inf - inf is NaN."""
    with torch.no_grad():
        if not bool(result.isnan().any()):
            return result
        still = tensors[0].isinf()
        for other in tensors[1:]:
            still &= other == tensors[0]
    return torch.where(still, tensors[0], result)
