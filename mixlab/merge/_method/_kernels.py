"""Fast paths: which method has one, and what part of a tensor it may be given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch

from mixlab.merge._method._context import Context, Tensors

Span = Literal["element", "tensor"]

# (merged tensors, base or None, out, settings, context, start): writes `out`. All are contiguous on
# the CPU, float32, bfloat16 or float16 each, of one shape. A kernel of span "element" may be given
# any flat part of a tensor, which begins at element `start`; one of span "tensor" is given all of
# it, in its shape. Mathematics in float32, one rounding at the end. No random bit may depend on
# how the tensor was cut.
Kernel = Callable[
    [Tensors, "torch.Tensor | None", torch.Tensor, Mapping[str, Any], Context, int], None
]
KERNEL_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})

_KERNELS: dict[str, tuple[Kernel, Span]] = {}


def kernel(*names: str, span: Span) -> Callable[[Kernel], Kernel]:
    """Make a fast path known for methods of these names."""

    def decorate(function: Kernel) -> Kernel:
        for name in names:
            _KERNELS[name] = (function, span)
        return function

    return decorate


def kernel_of(name: str) -> tuple[Kernel, Span] | None:
    """The fast path of a method and its span, where there is one."""
    return _KERNELS.get(name)
