"""Task arithmetic: models as sums of task vectors."""

from __future__ import annotations

import torch

from mixlab.merge._method import PerModel, Tensors, merge_method
from mixlab.merge.methods._combine import add_weighted, total_weight


@merge_method(
    source="Ilharco et al. 2023, Editing models with task arithmetic, arXiv:2212.04089",
    base="required",
    identity=True,
    symmetric=True,
)
def task_arithmetic(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    weight: PerModel[float] = 1.0,
    normalize: bool = False,
    lambda_: float = 1.0,
) -> torch.Tensor:
    """Task arithmetic: theta = base + lambda * sum_i w_i (x_i - base).

    mergekit also takes `density` and `rescale` here, and ignores them; this refuses them. It
    computes in the models' dtype unless told otherwise, so that bfloat16 is rounded at each step.

    Args:
        tensors: of one shape, any floating dtypes.
        base: of the same shape; what the task vectors d_i = x_i - base are measured from.
        weight: w_i of each model; negative ones subtract what a model learnt.
        normalize: divide by the sum of weights.
        lambda_: scale of the merged change.

    Returns:
        A new tensor in the dtype of the first model, computed in float32 and rounded once. Where
        nothing changes it has the base's bits.

    Raises:
        MixlabError: shapes differ, or weights that are normalised sum to 0.
    """
    assert base is not None
    assert isinstance(weight, tuple)
    total = total_weight("task_arithmetic", weight, normalize)
    return add_weighted(base, [tensor - base for tensor in tensors], weight, total, lambda_)
