"""What the weights say of one reference, as numbers that rules can be held against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mixlab.checkpoint import is_vocabulary
from mixlab.probe._low_rank import HYPOTHESES, LowRank
from mixlab.probe._tables import measures
from mixlab.probe._weights import Comparison


@dataclass(frozen=True)
class Evidence:
    """Numbers over the matrices of blocks, unless another place is named.

    Args:
        distance: |V - R| / |R|.
        cosine, identical: of all elements; share of equal value.
        tensors, tensors_identical: of the blocks, norms and biases included.
        attention, mlp: cosine of each kind of module; NaN where there is none.
        rows, rows_identical: of the embeddings, tokens that both have.
        gains: correlation of the norm weights, each centred.
        kept: rate kept along the strongest directions over that of the rest.
        low_rank_share: median over matrices of what 8 directions explain of the change.
        measured, low_rank: changed matrices looked at, and of low rank but for rounding.
        rank: largest of those.
        fits: energy beyond the rank over what each of `HYPOTHESES` would leave.
        scores: log-likelihoods of the hypotheses, less that of the best.
        near, rounded: share of elements that rounding to another format explains, and the
            energy of all over what such rounding leaves; NaN where both have one format.
        finer: 1 where the VLM is stored more finely than the reference, -1 the reverse, 0 alike.
        neurons, moved: agreement of the neurons' two matchings, share of them elsewhere.
    """

    distance: float
    cosine: float
    identical: float
    tensors: int
    tensors_identical: int
    attention: float
    mlp: float
    rows: float
    rows_identical: float
    gains: float
    kept: float
    low_rank_share: float
    measured: int
    low_rank: int
    rank: float
    fits: tuple[float, ...]
    scores: tuple[float, ...]
    near: float
    rounded: float
    finer: int
    neurons: float
    moved: float

    @property
    def frozen(self) -> bool:
        """Whether all tensors of all blocks are equal."""
        return self.tensors == self.tensors_identical


def gather(comparison: Comparison, at: int) -> Evidence:
    """Evidence about reference `at`."""
    pairs = list(zip(comparison.models.tensors, comparison.tensors, strict=True))
    total = comparison.matrices
    overall = measures(total, at)
    blocks = [sums for tensor, sums in pairs if tensor.layer is not None and sums.elements[at]]
    kinds = {kind: _cosine_of(comparison, kind, at) for kind in ("attention", "mlp")}
    table = next((s for t, s in pairs if t.module == "embeddings" and is_vocabulary(t.name)), None)
    ranks = list(comparison.low_rank[at].values())
    low = [one for one in ranks if one.rank is not None]
    grid, neurons = float(total.grid[at]), comparison.neurons[at]
    return Evidence(
        distance=overall["distance"],
        cosine=overall["cosine"],
        identical=float(overall["identical"]),
        tensors=len(blocks),
        tensors_identical=sum(bool(s.equal[at] == s.elements[at]) for s in blocks),
        attention=kinds["attention"],
        mlp=kinds["mlp"],
        rows=float(table.rows[at]) if table is not None else math.nan,
        rows_identical=float(table.rows_equal[at]) if table is not None else math.nan,
        gains=comparison.gains[at],
        kept=comparison.kept[at],
        low_rank_share=float(np.median([one.share for one in ranks])) if ranks else math.nan,
        measured=len(ranks),
        low_rank=len(low),
        rank=float(max(one.rank or 0 for one in low)) if low else math.nan,
        fits=_fits(low),
        scores=_scores(low),
        near=total.near[at] / total.elements[at] if grid else math.nan,
        rounded=float(total.gram[at, at]) / grid if grid else math.nan,
        finer=int(np.sign(total.finer[at])),
        neurons=neurons.agreement if neurons else math.nan,
        moved=neurons.moved if neurons else math.nan,
    )


def _cosine_of(comparison: Comparison, kind: str, at: int) -> float:
    sums = comparison.sums(lambda tensor: tensor.matrix and tensor.module == kind)
    return measures(sums, at)["cosine"] if sums.elements[at] else math.nan


def _fits(low: list[LowRank]) -> tuple[float, ...]:
    """Fits of the hypotheses over all matrices."""
    size = sum(one.elements for one in low)
    return tuple(
        sum(one.fits[h] * one.elements for one in low) / size if low else math.nan
        for h in range(len(HYPOTHESES))
    )


def _scores(low: list[LowRank]) -> tuple[float, ...]:
    """Log-likelihoods of the hypotheses over all matrices, less that of the best."""
    if not low:
        return (math.nan,) * len(HYPOTHESES)
    scores = [sum(one.scores[h] for one in low) for h in range(len(HYPOTHESES))]
    return tuple(score - max(scores) for score in scores)
