"""Task vectors scaled by depth."""

from __future__ import annotations

import torch

from mixlab.merge._method import Context, PerModel, Tensors, merge_method
from mixlab.merge.methods._step import step
from mixlab.spec import MixlabError


@merge_method(
    source="Wang et al. 2024, LiNeS, arXiv:2410.17146, eq. 2, and the authors' code",
    base="required",
    identity=True,
    symmetric=True,
)
def lines(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    alpha: float,
    beta: float | None = None,
    weight: PerModel[float] = 1.0,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """Layer scaling: theta = base + (alpha + beta * l / (L - 1)) * sum_i w_i (x_i - base).

    Shallow blocks, which hold what the models share, move least. Tensors outside the blocks take
    alpha, as in the authors' code (and so does the block of a model with one block). With one model
    the base at scale 0 and the model at scale 1 are exact bit for bit.

    Args:
        tensors: the tuned tensors, of one shape and any floating dtypes.
        base: what the task vectors are measured from.
        alpha: the scale at the first block and outside the blocks.
        beta: what the scale gains up to the last block. For one model it is 1 - alpha unless given
            (the paper's edit of a single model); for several the paper tunes it, so give it.
        weight: of each task vector; the paper's task arithmetic has 1 for all.
        context: gives l and L.

    Returns:
        A new tensor in the dtype of the first, summed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or several models come without beta.
    """
    assert base is not None
    assert isinstance(weight, tuple)
    scale = scale_at(alpha, beta, len(tensors), context)
    change = torch.zeros_like(base)
    for tensor, share in zip(tensors, weight, strict=True):
        change = change + share * (tensor - base)
    if len(tensors) == 1 and scale * weight[0] >= 0.5:
        # From the nearer end, so that the tuned model too is met bit for bit.
        return step(tensors[0], (scale * weight[0] - 1) * (tensors[0] - base))
    return step(base, scale * change)


def scale_at(alpha: float, beta: float | None, count: int, context: Context) -> float:
    """The scale of `count` models' task vectors in the context's block.

    Raises:
        MixlabError: several models come without beta.
    """
    if beta is None:
        if count > 1:
            raise MixlabError(
                f"lines: beta is missing for {count} models (1 - alpha is the default for one "
                "alone); give the gain from the first block to the last"
            )
        beta = 1 - alpha
    depth = 0.0
    if context.layer is not None and context.layers > 1:
        depth = context.layer / (context.layers - 1)
    return alpha + beta * depth
