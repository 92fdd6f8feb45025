"""The straight lines, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel

# Elements of a part: two float32 scratch parts stay in a 1 MiB second-level cache.
PART = 1 << 17


@kernel("wise_ft", span="element")
def wise_ft(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """`torch.lerp` widens half precision inside and rounds once."""
    assert base is not None
    tuned, reference, to = tensors[0].view(-1), base.view(-1), out.view(-1)
    alpha = settings["alpha"]
    same = tuned.dtype == reference.dtype == to.dtype
    for at in range(0, to.numel(), PART):
        a, b = reference[at : at + PART], tuned[at : at + PART]
        if same:
            torch.lerp(a, b, alpha, out=to[at : at + PART])
        else:
            to[at : at + PART].copy_(torch.lerp(a.float(), b.float(), alpha))
