"""Every number that a verdict on lineage rests on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Limits of the rules, set on planted worlds of even seeds and measured on those of odd ones.

    Cosines and distances are those of the blocks' matrices; embeddings, norms and biases, which
    look alike in any two models, are evidence of their own.

    Args:
        stranger: cosine below which two models share no weights that can be seen. Independent
            models have about 1 / sqrt(elements).
        changed: share of |V - R|^2 / |R|^2 from which the geometry of a change is looked at.
        kept: of models with a cosine below `close`: R's strongest singular directions must be in V
            at this rate of what the other directions are, in one direction at least. What two
            trainings from one random start share is the start, and that is weakest there.
        gains: correlation of the centred norm weights from which `kept` is not asked: they start
            equal in all models, so that what two models have in common there was learned.
        close: cosine from which no random start can be what two models share.
        neurons: share of neurons whose counterparts by `gate_proj` and by `up_proj` agree, from
            which models of unlike coordinates are permuted copies (chance: one in the width).
        low_rank_tensors: share of the measured changed matrices that must be of low rank.
        low_rank_noise: energy beyond the rank, in units of what two roundings leave.
        rounding: how far from 1 the energy beyond the rank may be, in units of what its
            hypothesis (one rounding of V, one of R, two) leaves.
        rounding_odds: log-odds of the best hypothesis against the next.
        copied: share of elements that rounding alone must explain in a copy of another dtype,
            and how far from 1 the energy may be.
        near_grid, grid: share of elements of the finer stored model that stand at the other's
            coarse values, and the most of rounding's energy: rounding would leave 1, a start 0.
        orthogonal, backward: largest cosine of two updates from the middle of three models, and
            how far below zero it may be: two trainings share some of what they learn, and go
            against each other only at a corner that is not the middle.
        bent: cosine that both other corners of the triangle must reach.
        steady: share of tensors whose own |cosine| at the middle is under `steady_cosine`.
        growth: a leaf S is trained from the middle M, and not the reverse, where
            |1 - <S,M>/|M|^2| is at most this share of 1 - <S,M>/|S|^2: an update is about
            orthogonal to what it starts from, so that the later model is the longer one. Weight
            decay shortens: where it does so by about as much, this misleads, and a small share
            keeps that coincidence rare.
    """

    stranger: float = 0.1
    changed: float = 1e-12
    kept: float = 0.85
    gains: float = 0.35
    close: float = 0.9
    neurons: float = 0.1
    low_rank_tensors: float = 0.95
    low_rank_noise: float = 1.4
    rounding: float = 0.35
    rounding_odds: float = 20.0
    copied: float = 0.9999
    near_grid: float = 0.9
    grid: float = 0.5
    orthogonal: float = 0.3
    backward: float = 0.1
    bent: float = 0.35
    steady: float = 0.75
    steady_cosine: float = 0.4
    growth: float = 0.15
