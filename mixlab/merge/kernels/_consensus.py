"""Sign election over parts; the definition is `add_elected`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mixlab.merge.kernels._parts import scratch


class Election:
    """Combines the negated, sparsified task vectors of several models."""

    def __init__(self, settings: Mapping[str, Any], numel: int) -> None:
        self.normalize: bool = settings["normalize"]
        self.weighted = settings["elect"] == "weighted"
        self.count = settings["consensus"] == "count"
        self._tally, self._sum, self._divisor = (scratch(numel) for _ in range(3))
        self._agree = scratch(numel)

    def combine(self, votes: Sequence[torch.Tensor], weight: Sequence[float]) -> torch.Tensor:
        """The change of a part, in scratch; `votes` are overwritten.

        A vote is negated, so + is elected where the tally is not above 0.
        """
        size = votes[0].numel()
        if len(votes) == 1:
            return self._single(votes[0], weight[0])
        if self.weighted:
            for vote, share in zip(votes, weight, strict=True):
                if share != 1:
                    vote.mul_(share)
        tally, agree = self._tally[:size], self._agree[:size]
        tally.zero_()
        for vote in votes:
            tally += torch.sign(vote, out=agree) if self.count else vote
        # 1 where the negative of + is elected, which is -: the sign that a vote must have.
        elected = torch.gt(tally, 0, out=tally).mul_(2).sub_(1)
        change, divisor = self._sum[:size].zero_(), self._divisor[:size].zero_()
        for vote, share in zip(votes, weight, strict=True):
            torch.gt(torch.mul(vote, elected, out=agree), 0, out=agree)
            if not self.weighted and share != 1:
                vote.mul_(share)
            change += vote.mul_(agree)
            if self.normalize:
                divisor += agree.mul_(share)
        if self.normalize:
            change /= divisor.add_(torch.eq(divisor, 0, out=agree))
        return change

    def _single(self, vote: torch.Tensor, share: float) -> torch.Tensor:
        """One model elects its own signs: w d / w, or w d."""
        if share != 1:
            vote.mul_(share)
            if self.normalize and share != 0:
                vote.div_(share)
        return vote
