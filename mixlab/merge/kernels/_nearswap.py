"""NearSwap, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.kernels._linear import PART, keep_agreed_part


@kernel("nearswap", span="element")
def nearswap(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """The formula in scratch that stays in the cache."""
    assert base is not None
    a, b, to = base.view(-1), tensors[0].view(-1), out.view(-1)
    scratch = torch.empty(3, min(PART, to.numel()))
    for at in range(0, to.numel(), PART):
        p, q = a[at : at + PART], b[at : at + PART]
        x, y, weight = scratch[:, : p.numel()].unbind()
        torch.sub(y.copy_(q), x.copy_(p), out=weight)
        weight.abs_().clamp_(min=1e-6).reciprocal_().mul_(settings["t"]).clamp_(max=1)
        to[at : at + PART].copy_(torch.lerp(x, y, weight, out=x))
        keep_agreed_part(to[at : at + PART], [p, q])
