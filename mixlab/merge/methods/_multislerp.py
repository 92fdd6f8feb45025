"""Barycentric interpolation of several models on a hypersphere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field

from mixlab.merge._method import PerModel, Tensors, merge_method
from mixlab.merge.methods._agree import agreement
from mixlab.merge.methods._linear import shares
from mixlab.spec import MixlabError


@merge_method(
    source="Goddard 2025, Multi-SLERP, goddard.blog/posts/multislerp-wow-what-a-cool-idea",
    base="optional",
    identity=True,
    symmetric=True,
)
def multislerp(
    tensors: Tensors,
    base: torch.Tensor | None = None,
    *,
    weight: PerModel[float] = 1.0,
    normalize_weights: bool = True,
    eps: Annotated[float, Field(ge=0)] = 1e-8,
) -> torch.Tensor:
    """theta = base + (sum_i w_i |v_i|) m, m the direction of sum_i w_i v_i / |v_i|.

    v_i = x_i - base. mergekit next moves m by the weighted sum of the unit vectors' parts across
    m; as m is the direction of their weighted sum, these cancel but for rounding, so the step is
    left out here.

    Without a base, v_i = x_i. Two vectors whose weighted units cancel are averaged on the straight
    line, as in mergekit. One model alone is returned as it is, whatever its weight (mergekit).

    Args:
        tensors: of one shape, any floating dtypes.
        base: centre of the sphere, or None for 0.
        weight: of each model. mergekit has no default.
        normalize_weights: divide them by their sum.
        eps: added to norms.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, weights that are normalised sum to 0, or the weighted unit
            vectors of three or more models cancel.
    """
    assert isinstance(weight, tuple)
    weights = shares("multislerp", weight, normalize_weights)
    if len(tensors) == 1 or (normalize_weights and bool(agreement(tensors).all())):
        return tensors[0]
    vectors = [(x if base is None else x - base).flatten() for x in tensors]
    norms = [torch.linalg.vector_norm(v, dtype=torch.float64) for v in vectors]
    mean = _sum(vectors, [w / (n + eps) for w, n in zip(weights, norms, strict=True)])
    length = torch.linalg.vector_norm(mean, dtype=torch.float64)
    if length < eps:
        if len(tensors) > 2:
            raise MixlabError(
                "multislerp: the weighted unit vectors cancel and have no mean direction; change "
                f"the weights {list(weight)}"
            )
        theta = _sum(vectors, weights)
    else:
        theta = mean * (torch.stack(norms) @ norms[0].new_tensor(weights) / length)
    theta = theta.reshape(tensors[0].shape)
    return theta if base is None else theta.add_(base)


def _sum(vectors: Tensors, factors: Sequence[float | torch.Tensor]) -> torch.Tensor:
    total = torch.zeros_like(vectors[0])
    for vector, factor in zip(vectors, factors, strict=True):
        total += factor * vector
    return total
