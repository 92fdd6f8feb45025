"""How the task vectors of several models become one change: plain sum, or sum by elected sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from mixlab.merge.methods._step import step
from mixlab.spec import MixlabError

Elect = Literal["weighted", "unweighted"]
Consensus = Literal["sum", "count"]


def total_weight(name: str, weight: Sequence[float], normalize: bool) -> float:
    """What the weighted sum of a method without consensus is divided by.

    Raises:
        MixlabError: the weights sum to 0 (below 1e-8, where mergekit divides by 1 in silence).
    """
    total = sum(weight) if normalize else 1.0
    if abs(total) < 1e-8:
        raise MixlabError(
            f"{name}: the weights {list(weight)} sum to 0 and cannot be normalised; change them, "
            "or set normalize: false"
        )
    return total


def add_weighted(
    base: torch.Tensor,
    deltas: Sequence[torch.Tensor],
    weight: Sequence[float],
    total: float,
    lambda_: float,
) -> torch.Tensor:
    """base + lambda * sum_i w_i d_i / total."""
    change = torch.zeros_like(base)
    for delta, share in zip(deltas, weight, strict=True):
        change = change + delta * share
    return step(base, change / total * lambda_)


def add_elected(
    base: torch.Tensor,
    deltas: Sequence[torch.Tensor],
    weight: Sequence[float],
    *,
    normalize: bool,
    lambda_: float,
    elect: Elect,
    consensus: Consensus,
) -> torch.Tensor:
    """base + lambda * (sum_i a_i w_i d_i) / (sum_i a_i w_i), a_i = 1 where i has the elected sign.

    The elected sign of an element is that of the sum over models ("sum"), or that of most models
    ("count"); an even vote elects +. Votes are cast by w_i d_i ("weighted", mergekit) or by d_i
    before weighting ("unweighted", the TIES paper, where weights come after the election); they
    differ where weights differ or are negative. Where the divisor is 0 it is taken as 1.
    """
    weighted = [delta * share for delta, share in zip(deltas, weight, strict=True)]
    votes = weighted if elect == "weighted" else list(deltas)
    tally = torch.zeros_like(base)
    for vote in votes:
        tally = tally + (vote if consensus == "sum" else vote.sign())
    elected = torch.where(tally >= 0, 1, -1)
    change, divisor = torch.zeros_like(base), torch.zeros_like(base)
    for vote, part, share in zip(votes, weighted, weight, strict=True):
        agree = (vote.sign() == elected).to(base.dtype)
        change = change + part * agree
        divisor = divisor + agree * share
    if normalize:
        change = change / torch.where(divisor == 0, 1, divisor)
    return step(base, change * lambda_)
