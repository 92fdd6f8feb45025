"""One model, as it is or scaled."""

from __future__ import annotations

import torch

from mixlab.merge._method import PerModel, Tensors, merge_method


@merge_method(
    source="mergekit `passthrough`",
    base="none",
    models=(1, 1),
    identity=True,
)
def passthrough(
    tensors: Tensors, base: torch.Tensor | None = None, *, scale: PerModel[float] = 1.0
) -> torch.Tensor:
    """theta = scale * x: a tensor handed through, as in models stacked of slices of others.

    Args:
        tensors: the one tensor, any shape and floating dtype.
        base: not used.
        scale: factor; at 1 the tensor stays bit for bit.

    Returns:
        A new tensor of the same dtype.

    Raises:
        MixlabError: there is more than one model.
    """
    assert isinstance(scale, tuple)
    return tensors[0] if scale[0] == 1 else tensors[0] * scale[0]
