"""What makes up for dropped elements of a task vector."""

from __future__ import annotations

import math
from typing import Literal

import torch

from mixlab.merge._random import odds_drawn

# `true` is mergekit's spelling of "l1".
Rescale = bool | Literal["l1", "inverse"]

# Elements of a block that is summed in float32; blocks are summed exactly, so that a sum does not
# depend on how a tensor was cut into parts of whole blocks.
BLOCK = 1 << 12
# mergekit's: norms below are not matched.
SMALLEST = 1e-7


def block_sums(magnitudes: torch.Tensor, block: int = BLOCK) -> list[float]:
    """Sums of consecutive blocks of a flat tensor; the last may be shorter."""
    whole = magnitudes.numel() // block * block
    sums: list[float] = magnitudes[:whole].view(-1, block).sum(1).tolist()
    if whole < magnitudes.numel():
        sums.append(float(magnitudes[whole:].sum()))
    return sums


def match_l1(before: list[float], after: list[float]) -> float:
    """The factor that gives what is kept the L1 norm of what was there, from block sums."""
    whole, kept = math.fsum(before), math.fsum(after)
    # Nothing was dropped where they are equal, though both be infinite.
    return 1.0 if whole == kept or whole < SMALLEST or kept < SMALLEST else whole / kept


def keep(
    delta: torch.Tensor,
    mask: torch.Tensor,
    rescale: Rescale,
    odds: torch.Tensor | float = 1.0,
) -> torch.Tensor:
    """The masked task vector, rescaled.

    Args:
        rescale: False: not at all. True or "l1": to the L1 norm of `delta` over the tensor.
            "inverse": each element by 1 / odds as they are drawn, to 2**-17, which makes the
            expectation over masks `delta`.
        odds: the probability with which each element was kept.
    """
    kept = delta * mask
    if rescale == "inverse":
        if isinstance(odds, torch.Tensor):
            drawn = torch.from_numpy(odds_drawn(odds.detach().cpu().numpy())).to(delta.device)
            return kept * torch.where(mask > 0, 1 / drawn, 0).to(delta.dtype)
        return kept * (1 / float(odds_drawn(odds))) if odds > 0 else kept
    if rescale:
        before, after = (block_sums(part.detach().abs().flatten()) for part in (delta, kept))
        return kept * match_l1(before, after)
    return kept
