"""LiNeS, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.kernels._linear import write_line
from mixlab.merge.kernels._task import mix
from mixlab.merge.methods._lines import scale_at


@kernel("lines", span="element")
def lines(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """One model: the straight line, whose ends are copies. Several: task arithmetic."""
    assert base is not None
    weight = settings["weight"]
    scale = scale_at(settings["alpha"], settings["beta"], len(tensors), context)
    if len(tensors) > 1:
        plain = {"weight": weight, "lambda_": scale, "normalize": False}
        mix(tensors, base, out, plain, [(None, 1.0)] * len(tensors), name="lines")
    elif scale * weight[0] in (0, 1):
        out.copy_(tensors[0] if scale * weight[0] == 1 else base)
    else:
        write_line(base, tensors[0], scale * weight[0], out)
