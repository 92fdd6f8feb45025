"""A step from the base that leaves what does not move as it is."""

from __future__ import annotations

import torch


def step(base: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """base + change; where the change is 0 the base's own bits, the sign of a zero included."""
    return torch.where(change == 0, base, base + change)
