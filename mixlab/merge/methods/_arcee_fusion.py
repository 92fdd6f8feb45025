"""Arcee Fusion: of the changes, only the important ones."""

from __future__ import annotations

import torch

from mixlab.merge._method import Tensors, merge_method
from mixlab.merge.methods._order import order_statistics


@merge_method(
    source="Arcee 2024, Arcee Fusion; mergekit `arcee_fusion`",
    base="required",
    models=(1, 1),
    identity=True,
)
def arcee_fusion(tensors: Tensors, base: torch.Tensor | None) -> torch.Tensor:
    """theta = x where the importance of its change is high, else base.

    Importance is |x - base| times the Kullback-Leibler divergence of softmax(x) from softmax(base)
    along the last axis (each probability plus 1e-8). High is at least q2 + 1.5 (q3 - q1), of the
    quartiles of the tensor. Quartiles are exact here; of tensors of more than a million elements
    mergekit takes them from a million elements drawn at random without a seed, so that the two then
    differ in the few elements near the threshold. A value that is not finite has no importance and
    leaves its row none: where the two differ there, the result is NaN.

    Args:
        tensors: the tuned tensor, alone in a sequence; any shape and floating dtype.
        base: of the same shape.

    Returns:
        A new tensor in the dtype of the tuned one.

    Raises:
        MixlabError: shapes differ.
    """
    assert base is not None
    (tuned,) = tensors
    importance = importance_of(tuned, base)
    return choose(importance, threshold(importance.flatten()), tuned, base)


def importance_of(tuned: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """|x - base| times the divergence of its row."""
    q = torch.softmax(base, -1).add_(1e-8)
    p = torch.softmax(tuned, -1).add_(1e-8)
    divergence = q.reciprocal_().mul_(p).log_().mul_(p).sum(-1, keepdim=True)
    return (tuned - base).abs_().mul_(divergence)


def choose(
    importance: torch.Tensor, least: float, tuned: torch.Tensor, base: torch.Tensor
) -> torch.Tensor:
    """The tuned value where importance is at least `least`, else the base's."""
    # A comparison with NaN is false and would choose the base, which hides what is wrong.
    undefined = importance.isnan() & (tuned != base)
    return torch.where(importance >= least, tuned, base).masked_fill_(undefined, torch.nan)


def threshold(importance: torch.Tensor) -> float:
    """q2 + 1.5 (q3 - q1) of a flat tensor."""
    ranks = [int(share * (importance.numel() - 1)) for share in (0.25, 0.5, 0.75)]
    q1, q2, q3 = order_statistics(importance, ranks)
    return q2 + 1.5 * (q3 - q1)
