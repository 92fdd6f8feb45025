"""Straight lines: weighted averages, and the path between a reference and a tuned model."""

from __future__ import annotations

import torch

from mixlab.merge._method import PerModel, Share, Tensors, merge_method
from mixlab.spec import MixlabError


@merge_method(
    source="Wortsman et al. 2022, WiSE-FT, arXiv:2109.01903, eq. 1",
    base="required",
    models=(1, 1),
    identity=True,
)
def wise_ft(tensors: Tensors, base: torch.Tensor | None, *, alpha: Share) -> torch.Tensor:
    """theta = (1 - alpha) * base + alpha * tuned: alpha weighs the tuned model.

    Both ends are exact bit for bit, and so is every element in which the two agree.

    Args:
        tensors: the tuned tensor, alone in a sequence; any shape and floating dtype.
        base: the reference, of the same shape.
        alpha: from 0 (the reference) to 1 (the tuned model).

    Returns:
        A new tensor in the dtype of the tuned one, mixed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, alpha is outside [0, 1], or integer tensors differ.
    """
    assert base is not None
    (tuned,) = tensors
    return torch.lerp(base, tuned, alpha)


@merge_method(
    source="Wortsman et al. 2022, Model soups, arXiv:2203.05482; mergekit `linear`",
    base="none",
    identity=True,
    symmetric=True,
)
def linear(
    tensors: Tensors,
    base: torch.Tensor | None = None,
    *,
    weight: PerModel[float] = 1.0,
    normalize: bool = True,
) -> torch.Tensor:
    """Weighted average: theta = sum_i w_i x_i, divided by sum_i w_i where normalised.

    Args:
        tensors: of one shape, any floating dtypes.
        base: not used; list every model among `tensors`.
        weight: of each model; negative ones are allowed.
        normalize: divide by the sum of weights (mergekit's default).

    Returns:
        A new tensor in the dtype of the first, summed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or weights that are normalised sum to 0.
    """
    assert isinstance(weight, tuple)
    total = sum(weight) if normalize else 1.0
    if abs(total) < 1e-12:
        raise MixlabError(
            f"linear: the weights {list(weight)} sum to 0 and cannot be normalised; change them, "
            "or set normalize: false"
        )
    theta = torch.zeros_like(tensors[0])
    for tensor, share in zip(tensors, weight, strict=True):
        theta = theta + share * tensor
    theta = theta / total
    if normalize:
        for tensor in tensors:
            agree = tensor == tensors[0] if tensor is tensors[0] else agree & (tensor == tensors[0])
        theta = torch.where(agree, tensors[0], theta)
    return theta
