"""The norm-matched random direction in two passes over parts: lengths, then the step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge._random import uniforms
from mixlab.merge.kernels._linear import keep_infinities_part
from mixlab.merge.kernels._parts import parts, scratch, widen
from mixlab.merge.methods._random_direction import gaussians
from mixlab.merge.methods._step import step


@kernel("random_direction", span="tensor")
def random_direction(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Draws g twice, which needs no room for it."""
    assert base is not None
    tuned, reference, to = tensors[0].view(-1), base.view(-1), out.view(-1)
    one, two, room = (scratch(to.numel()) for _ in range(3))
    moved, drawn = [], []
    for at, stop in parts(to.numel()):
        delta = widen(tuned[at:stop], one).double() - widen(reference[at:stop], two)
        gauss = gaussians(uniforms(context, 0, at, room[: stop - at]))
        moved.append(float(delta.square_().sum()))
        drawn.append(float(gauss.square_().sum()))
    if not math.fsum(moved):
        out.copy_(base)
        return
    scale = settings["alpha"] * math.sqrt(math.fsum(moved)) / math.sqrt(math.fsum(drawn))
    for at, stop in parts(to.numel()):
        change = gaussians(uniforms(context, 0, at, room[: stop - at])).mul_(scale)
        to[at:stop] = step(widen(reference[at:stop], one), change.float())
        keep_infinities_part(to[at:stop], [reference[at:stop], tuned[at:stop]])
