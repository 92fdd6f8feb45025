"""Singular values and vectors of task vectors."""

from __future__ import annotations

import torch

from mixlab.merge._method import Context
from mixlab.spec import MixlabError


def singular(
    matrix: torch.Tensor, context: Context
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """U (m, r), S (r,) descending and V^T (r, n) of an (m, n) matrix, r = min(m, n).

    Its last bits follow the number of threads that torch gives to one operation.

    Raises:
        MixlabError: the matrix has NaN or infinite values, or such that overflow.
    """
    where = f"{context.name}: " if context.name else ""
    # Looked for first: LAPACK writes complaints of its own to the terminal.
    if not bool(matrix.isfinite().all()):
        raise MixlabError(f"{where}no singular value decomposition: values are not finite")
    try:
        u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    except torch.linalg.LinAlgError as failure:
        raise MixlabError(f"{where}no singular value decomposition: {failure}") from None
    if not bool(s.isfinite().all()):
        raise MixlabError(f"{where}no singular value decomposition: values are too large")
    return u, s, vt


def nearest_orthogonal(matrix: torch.Tensor, context: Context) -> torch.Tensor:
    """P Q^T of the decomposition P D Q^T: the closest matrix with orthonormal columns.

    Where there are more columns than rows, with orthonormal rows. Directions in which D is 0 to
    rounding are left out, because P and Q are arbitrary there.
    """
    p, d, qt = singular(matrix, context)
    rank = count_above_rounding(d, matrix.shape)
    return p[:, :rank] @ qt[:rank]


def count_above_rounding(s: torch.Tensor, shape: tuple[int, ...]) -> int:
    """How many singular values of a matrix of this shape are more than rounding leaves of 0."""
    if s.numel() == 0:
        return 0
    return int((s > s[0] * max(shape) * torch.finfo(s.dtype).eps).sum())
