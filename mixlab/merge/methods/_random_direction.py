"""Nulls of merge curves: steps that are as long as the real one, and lead nowhere."""

from __future__ import annotations

import numpy as np
import torch

from mixlab.merge._method import Context, Tensors, merge_method
from mixlab.merge._random import random_words, uniforms_like
from mixlab.merge.methods._step import step


@merge_method(
    source="mixlab: the norm-matched random direction, a null of merge curves",
    base="required",
    models=(1, 1),
    identity=True,
    random=True,
)
def random_direction(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    alpha: float = 1.0,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """Null: theta = base + alpha * ||tuned - base|| * g / ||g||, g Gaussian.

    The step has the task vector's length in every tensor and an even chance of every direction.
    (Rounding to half precision changes the length of a step that is short beside the weights.)

    Args:
        tensors: the tuned tensor, alone in a sequence; any shape and floating dtype.
        base: where the step starts.
        alpha: length of the step, in lengths of the task vector.
        context: seed, model and tensor name, which with the element's index key g.

    Returns:
        A new tensor in the dtype of the tuned one, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ.
    """
    assert base is not None
    (tuned,) = tensors
    gauss = gaussians(uniforms_like(base, context, 0))
    length = torch.linalg.vector_norm((tuned - base).double())
    change = gauss * (alpha * length / torch.linalg.vector_norm(gauss))
    return step(base, change.to(base.dtype))


def gaussians(uniform: torch.Tensor) -> torch.Tensor:
    """Standard normal float64 numbers, none 0 or infinite, from uniform multiples of 2**-24."""
    # Moved to the middle of their cells: none is 0, 1/2 or 1.
    return torch.special.ndtri(uniform.double() + 2.0**-25)


@merge_method(
    source="mixlab: the task vector permuted within each tensor, a null of merge curves",
    base="required",
    models=(1, 1),
    identity=True,
    random=True,
)
def permuted_direction(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    alpha: float = 1.0,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """Null: theta = base + alpha * (tuned - base), its elements permuted within the tensor.

    The step keeps every size and sign of the task vector and loses their places.

    Args:
        tensors: the tuned tensor, alone in a sequence; any shape and floating dtype.
        base: where the step starts.
        alpha: weighs the permuted task vector.
        context: seed, model and tensor name, which key the permutation: the order of one uniform
            number of 24 bits for each element. Equal numbers keep their order.

    Returns:
        A new tensor in the dtype of the tuned one, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ.
    """
    assert base is not None
    (tuned,) = tensors
    change = (tuned - base).reshape(-1)[_permutation(base, context)].view(base.shape)
    return step(base, alpha * change)


def _permutation(like: torch.Tensor, context: Context) -> torch.Tensor:
    count = like.numel()
    if count > 1 << 32:
        return torch.argsort(uniforms_like(like, context, 0).view(-1), stable=True)
    # The number above the element's index: distinct keys, which numpy sorts ten times quicker.
    keys = (random_words(context, 0, 0, count) >> 8).astype(np.int64)
    keys <<= 32
    keys |= np.arange(count)
    keys.sort()
    keys &= 0xFFFFFFFF
    return torch.from_numpy(keys).to(like.device)
