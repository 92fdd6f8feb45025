"""Spherical interpolation by weights, of whole tensors or of rows, of models or task vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mixlab.merge._method import PerModel, Tensors, merge_method

# Squared sine below which vectors are taken for (anti)parallel. The line and the arc between
# parallel ones then differ by 1e-6 of their length at most.
LINE = 1e-5


@merge_method(
    source="mergekit `nuslerp`",
    base="optional",
    models=(2, 2),
    identity=True,
    symmetric=True,
)
def nuslerp(
    tensors: Tensors,
    base: torch.Tensor | None = None,
    *,
    weight: PerModel[float] = 1.0,
    nuslerp_row_wise: bool = False,
    nuslerp_flatten: bool = True,
) -> torch.Tensor:
    """theta = base + (sin((1 - t) Omega) v_0 + sin(t Omega) v_1) / sin(Omega), v_i = x_i - base.

    t = w_1 / (w_0 + w_1), or 1/2 where the weights sum to 0. Without a base, v_i = x_i. Vectors
    less than 0.003 from (anti)parallel are interpolated on the straight line. mergekit does so only
    where their float32 cosine is exactly 1 or -1; of antiparallel ones that miss it by a rounding
    it returns thousands of times their length, as 1 / sin(Omega) grows without bound.

    Args:
        tensors: two, of one shape and any floating dtypes.
        base: where task vectors begin, or None.
        weight: of each model. mergekit has no default.
        nuslerp_row_wise: without flattening, vectors run along the first axis (mergekit's name for
            it), else along the last.
        nuslerp_flatten: the whole tensor is one vector.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ.
    """
    assert isinstance(weight, tuple)
    if torch.equal(tensors[0], tensors[1]):
        return tensors[0]
    t = share_of_second(weight)
    a, b = tensors if base is None else (tensors[0] - base, tensors[1] - base)
    shape, dim = a.shape, 0 if nuslerp_row_wise else -1
    if nuslerp_flatten:
        a, b, dim = a.flatten(), b.flatten(), -1
    cosine = (_unit(a, dim) * _unit(b, dim)).sum(dim, keepdim=True).clamp(-1, 1)
    line = 1 - cosine**2 <= LINE
    omega = torch.acos(torch.where(line, 0, cosine))
    from_a = torch.where(line, 1 - t, torch.sin((1 - t) * omega) / torch.sin(omega))
    from_b = torch.where(line, t, torch.sin(t * omega) / torch.sin(omega))
    theta = (from_a * a).addcmul_(from_b, b).reshape(shape)
    return theta if base is None else theta.add_(base)


def share_of_second(weight: Sequence[float]) -> float:
    """t; 1/2 where the weights sum to 0."""
    total = sum(weight)
    return 0.5 if abs(total) < 1e-6 else weight[1] / total


def _unit(vectors: torch.Tensor, dim: int) -> torch.Tensor:
    length = torch.linalg.vector_norm(vectors, dim=dim, keepdim=True, dtype=torch.float64)
    return vectors / length.clamp(min=1e-7).to(vectors.dtype)
