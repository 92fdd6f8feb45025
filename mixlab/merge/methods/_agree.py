"""Elements in which the inputs agree: kept bit for bit, whatever the arithmetic makes of them."""

from __future__ import annotations

import torch

from mixlab.merge._method import Tensors


def agreement(tensors: Tensors) -> torch.Tensor:
    """Where all tensors hold the same number (0.0 and -0.0 are the same), as a boolean tensor."""
    first = tensors[0]
    agree = torch.ones_like(first, dtype=torch.bool)
    for other in tensors[1:]:
        agree &= other == first
    return agree


def keep_agreed(theta: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    """`theta`, with the first tensor's value put in place wherever all tensors agree.

    Rounding, -0.0 + 0.0 and inf - inf would else change what nobody asked to change. The values
    are written outside of autograd, so that the gradient stays that of the formula.
    """
    with torch.no_grad():
        return theta.copy_(torch.where(agreement(tensors), tensors[0], theta))
