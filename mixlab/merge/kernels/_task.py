"""The task-vector family in one pass over parts, after a look at what sparsifying needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.kernels._consensus import Election
from mixlab.merge.kernels._linear import keep_infinities_part
from mixlab.merge.kernels._parts import parts, scratch, widen
from mixlab.merge.kernels._sieves import Sieve
from mixlab.merge.methods._combine import total_weight

# A sieve (None keeps all) and the factor of what it keeps.
Sifted = tuple[Sieve | None, float]


@kernel("task_arithmetic", span="element")
def task_arithmetic(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Nothing is sparsified."""
    assert base is not None
    mix(tensors, base, out, settings, [(None, 1.0)] * len(tensors), name="task_arithmetic")


def mix(
    tensors: Tensors,
    base: torch.Tensor,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    sifted: Sequence[Sifted],
    *,
    name: str,
) -> None:
    """base + lambda * combined task vectors, each sifted, scaled and weighted.

    The change is computed as its negative, base - tensor, and subtracted: what does not move is
    then +0.0, and subtracting +0.0 leaves every bit of the base, the sign of a zero included. The
    numbers are those of `add_weighted` and `add_elected`, as rounding is symmetric.

    Args:
        settings: with `elect` where signs are elected.
    """
    weight: tuple[float, ...] = settings["weight"]
    lambda_: float = settings["lambda_"]
    election = Election(settings, out.numel()) if "elect" in settings else None
    total = 1.0 if election else total_weight(name, weight, settings["normalize"])
    flat, reference, to = [t.view(-1) for t in tensors], base.view(-1), out.view(-1)
    room = scratch(to.numel())
    rooms = [scratch(to.numel()) for _ in flat]
    for start, stop in parts(to.numel()):
        wide = widen(reference[start:stop], room)
        votes = []
        for tensor, (sieve, scale), own in zip(flat, sifted, rooms, strict=True):
            vote = torch.sub(wide, widen(tensor[start:stop], own), out=own[: stop - start])
            if sieve is not None:
                sieve.sift(vote, start)
            votes.append(times(vote, scale))
        if election:
            change = election.combine(votes, weight)
        else:
            change = _sum(votes, weight)
            if total != 1:
                change.div_(total)
        change = times(change, lambda_)
        # A dropped or negatively weighted element may be -0.0 by now.
        torch.sub(wide, change.add_(0.0), out=to[start:stop])
        keep_infinities_part(to[start:stop], [x[start:stop] for x in (reference, *flat)])


def times(part: torch.Tensor, factor: float) -> torch.Tensor:
    """The part multiplied in place; as it is where that changes nothing."""
    return part if factor == 1 else part.mul_(factor)


def _sum(votes: Sequence[torch.Tensor], weight: Sequence[float]) -> torch.Tensor:
    change = times(votes[0], weight[0])
    for vote, share in zip(votes[1:], weight[1:], strict=True):
        change += times(vote, share)
    return change
