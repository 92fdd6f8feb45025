"""The Karcher mean: the point of a sphere with the least sum of squared arcs."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from mixlab.merge._method import Tensors, merge_method
from mixlab.merge.methods._agree import agreement


@merge_method(
    source="Karcher mean merging 2026, arXiv:2603.04972; mergekit `karcher`",
    base="none",
    identity=True,
    symmetric=True,
)
def karcher(
    tensors: Tensors,
    base: torch.Tensor | None = None,
    *,
    max_iter: Annotated[int, Field(ge=0)] = 10,
    tol: Annotated[float, Field(ge=0)] = 1e-5,
) -> torch.Tensor:
    """Riemannian mean of the unit vectors u_i, times the mean norm of all tensors.

    From their normalised sum m, steps along s = mean_i (Omega_i / sin Omega_i) (u_i - cos Omega_i
    m), Omega_i the angle between u_i and m: m <- cos |s| m + sin |s| s / |s|, until |s| < tol.
    Tensors of norm at most tol give no direction but count in the mean norm (mergekit); if all are
    such, the result is 0. A vector opposite to m pulls nowhere. Of vectors whose sum cancels, the
    first is the starting point, so that the result then depends on their order (as in mergekit).

    Args:
        tensors: of one shape, any floating dtypes.
        base: not used; list every model among `tensors`.
        max_iter: largest number of steps.
        tol: see above.

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ.
    """
    if bool(agreement(tensors).all()):
        return tensors[0]
    norms = [torch.linalg.vector_norm(x, dtype=torch.float64) for x in tensors]
    units = [(x / n).flatten() for x, n in zip(tensors, norms, strict=True) if not n <= tol]
    if not units:
        return torch.zeros_like(tensors[0])
    mean = torch.zeros_like(units[0])
    for unit in units:
        mean.add_(unit, alpha=1 / len(units))
    length = torch.linalg.vector_norm(mean)
    mean = units[0].clone() if length < tol else mean / length
    for _ in range(max_iter):
        step = torch.zeros_like(mean)
        for unit in units:
            cosine = (unit @ mean).clamp(-1, 1)
            omega = torch.acos(cosine)
            if torch.sin(omega) > tol:
                step += (omega / torch.sin(omega) / len(units)) * (unit - cosine * mean)
        length = torch.linalg.vector_norm(step)
        if length <= tol:
            break
        mean = torch.cos(length) * mean + (torch.sin(length) / length) * step
        mean /= torch.linalg.vector_norm(mean)
    return (sum(norms) / len(norms) * mean).reshape(tensors[0].shape)
