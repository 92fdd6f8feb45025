"""Model Stock: how far from the base the average of tuned models should be."""

from __future__ import annotations

from itertools import combinations

import torch

from mixlab.merge._method import Tensors, merge_method
from mixlab.merge.methods._agree import keep_agreed


@merge_method(
    source="Jang et al. 2024, Model Stock, arXiv:2403.19522, eq. 6; mergekit `model_stock`",
    base="required",
    models=(2, None),
    identity=True,
    symmetric=True,
)
def model_stock(
    tensors: Tensors, base: torch.Tensor | None, *, filter_wise: bool = False
) -> torch.Tensor:
    """theta = t mean_i x_i + (1 - t) base, t = N c / (1 + (N - 1) c).

    c is the mean cosine between the task vectors of two models. Where the denominator is below
    1e-6 the base is kept (mergekit); products of norms below 1e-6 count as 1e-6.

    Args:
        tensors: two or more tuned tensors of one shape, any floating dtypes.
        base: of the same shape.
        filter_wise: one t for each vector along the last axis, not one for the tensor.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ.
    """
    assert base is not None
    count = len(tensors)
    vectors = [x - base if filter_wise else (x - base).flatten() for x in tensors]
    norms = [torch.linalg.vector_norm(v, dim=-1, dtype=torch.float64).to(v.dtype) for v in vectors]
    cosines = [
        ((vectors[i] * vectors[j]).sum(-1) / (norms[i] * norms[j]).clamp(min=1e-6)).clamp(-1, 1)
        for i, j in combinations(range(count), 2)
    ]
    cosine = torch.stack(cosines).mean(0)
    below = 1 + (count - 1) * cosine
    t = torch.where(below.abs() < 1e-6, 0, count * cosine / below)
    if filter_wise and base.dim():
        t = t.unsqueeze(-1)
    average = torch.zeros_like(base)
    for x in tensors:
        average.add_(x, alpha=1 / count)
    return keep_agreed(average.mul_(t).add_((1 - t) * base), [base, *tensors])
