"""Merging by task singular vectors."""

from __future__ import annotations

import torch

from mixlab.merge._method import Context, Share, Tensors, merge_method
from mixlab.merge.methods._spectrum import count_above_rounding, nearest_orthogonal, singular
from mixlab.merge.methods._step import step


@merge_method(
    source="Gargiulo et al., Task Singular Vectors, CVPR 2025, arXiv:2412.00081, algorithm 1",
    base="required",
    identity=True,
    symmetric=True,
)
def tsv(
    tensors: Tensors,
    base: torch.Tensor | None,
    *,
    alpha: float = 1.0,
    rank_share: Share | None = None,
    context: Context = Context(),  # noqa: B008
) -> torch.Tensor:
    """Task singular vectors: each task's strongest directions, made orthogonal between tasks.

    Of task vectors U_i S_i V_i^T the first k singular vectors are kept and stood side by side,
    U = [U_1 … U_T] and V = [V_1 … V_T]; each is replaced by the nearest orthogonal matrix (P Q^T of
    its own decomposition P D Q^T), and theta = base + alpha * U diag(S_1 … S_T) V^T.

    Directions of no strength are left out before and within that step: there the decomposition's
    vectors are arbitrary, and would bend those of other tasks. So a task that did not move has no
    part in the result, and two equal tasks merge to one of them.

    Tensors of other than two axes take alpha times the mean of their task vectors, as in the
    authors' code. With one task and a rank share of 1, theta = base + alpha * (x - base).

    Args:
        tensors: the tuned tensors, one a task; of one shape, any floating dtypes.
        base: what the task vectors are measured from.
        alpha: scale of the merged task vector; 1 in the paper.
        rank_share: share of each task's min(m, n) singular values that is kept, rounded down but
            never below one; 1 / T by default, so that all tasks together fill the rank. (The
            authors' code lets a matrix with min(m, n) < T keep none, which drops the tensor.)

    Returns:
        A new tensor in the dtype of the first, computed in float32 and rounded once.

    Raises:
        MixlabError: shapes differ, or a task vector is not finite.
    """
    assert base is not None
    changes = [tensor - base for tensor in tensors]
    if base.dim() != 2 or base.numel() == 0:
        return step(base, alpha * torch.stack(changes).mean(0))
    full = min(base.shape)
    # The tiny addend keeps 0.29 * 100 from falling to 28.
    kept = full // len(tensors) if rank_share is None else int(full * rank_share + 1e-9)
    kept = max(1, kept)
    parts = []
    for change in changes:
        u, s, vt = singular(change, context)
        rank = min(kept, count_above_rounding(s, base.shape))
        parts.append((u[:, :rank], s[:rank], vt[:rank].T))
    u, s, v = (torch.cat(part, -1) for part in zip(*parts, strict=True))
    u, v = nearest_orthogonal(u, context), nearest_orthogonal(v, context)
    return step(base, alpha * (u * s) @ v.T)
