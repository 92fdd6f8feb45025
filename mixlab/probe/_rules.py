"""Rules from the evidence about one pair to a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mixlab.probe._evidence import Evidence
from mixlab.probe._thresholds import Thresholds

Kind = Literal[
    "same", "ancestor", "earlier ancestor", "sibling", "descendant",
    "related, direction unknown", "related, neurons permuted", "stranger",
]  # fmt: skip
KINDS: tuple[Kind, ...] = (
    "same", "ancestor", "earlier ancestor", "sibling", "descendant",
    "related, direction unknown", "related, neurons permuted", "stranger",
)  # fmt: skip
UNKNOWN: Kind = "related, direction unknown"


@dataclass(frozen=True)
class Finding:
    """A verdict, the rule that gave it, and the rule's numbers in a sentence."""

    verdict: Kind
    rule: str
    because: str


def judge_pair(evidence: Evidence, hypothesis: int, leaf: bool, limits: Thresholds) -> Finding:
    """What the pair alone says; the first rule that fits.

    Args:
        hypothesis: the best of those of `LowRank` (0: V was rounded, 1: R was, 2: both).
        leaf: the VLM sees and the reference does not, so that the reference was not trained from
            it (short of taking its backbone out, which leaves it frozen).
    """
    for rule in (_frozen, _copied, _apart, _shared_start, _adapter, _grid):
        found = rule(evidence, hypothesis, leaf, limits)
        if found is not None:
            return found
    return Finding(
        UNKNOWN,
        "related",
        f"cosine {evidence.cosine:.4f}, distance {evidence.distance:.4f}: they share weights; a "
        "full change of one pair looks the same from both ends",
    )


def _frozen(e: Evidence, _: int, leaf: bool, limits: Thresholds) -> Finding | None:
    if not e.frozen:
        return None
    told = f"all {e.tensors} tensors of the blocks are identical"
    if leaf:
        return Finding(
            "ancestor", "frozen",
            f"{told}, and only the VLM has a vision part (a backbone taken out of the VLM "
            "would look the same)",
        )  # fmt: skip
    if e.rows_identical == e.rows or math.isnan(e.rows):
        return Finding("same", "frozen", told)
    rows = f"{e.rows - e.rows_identical:.0f} of {e.rows:.0f} rows of the embeddings are not"
    return Finding(UNKNOWN, "frozen", f"{told}; {rows}")


def _copied(e: Evidence, _: int, leaf: bool, limits: Thresholds) -> Finding | None:
    if not e.near >= limits.copied:
        return None
    spread = abs(e.rounded - 1) <= limits.rounding
    if not (spread or e.identical >= 0.99):
        return None
    told = (
        f"same but for rounding: it explains {e.near:.2%} of elements, with {e.rounded:.2f} of "
        "the energy expected"
    )
    return Finding("ancestor" if leaf else "same", "rounded copy", told)


def _apart(e: Evidence, _: int, leaf: bool, limits: Thresholds) -> Finding | None:
    if e.neurons >= limits.neurons:
        return Finding(
            "related, neurons permuted", "neurons",
            f"{e.neurons:.1%} of the neurons have one counterpart by gate_proj and up_proj, "
            f"{e.moved:.1%} of these in another place; distances say nothing here",
        )  # fmt: skip
    if e.cosine >= limits.stranger:
        return None
    sought = "" if math.isnan(e.neurons) else f"; neurons in another order: {e.neurons:.1%} agree"
    return Finding("stranger", "cosine", f"cosine {e.cosine:.4f} < {limits.stranger:g}{sought}")


def _shared_start(e: Evidence, _: int, leaf: bool, limits: Thresholds) -> Finding | None:
    if not (e.cosine < limits.close and e.kept < limits.kept) or e.gains >= limits.gains:
        return None
    return Finding(
        "stranger", "random start",
        f"cosine {e.cosine:.4f}, but the strongest directions are kept at {e.kept:.2f} of the rate "
        f"of the rest (< {limits.kept:g}) and norm weights correlate {e.gains:.2f} "
        f"(< {limits.gains:g}): they share a random start, and nothing learned",
    )  # fmt: skip


def _adapter(e: Evidence, hypothesis: int, leaf: bool, limits: Thresholds) -> Finding | None:
    if not e.measured or e.low_rank < limits.low_rank_tensors * e.measured:
        return None
    told = (
        f"{e.low_rank} of {e.measured} changed matrices are of rank {e.rank:.0f} or less but for "
        f"rounding"
    )
    fit = e.fits[hypothesis]
    if abs(fit - 1) > limits.rounding or e.odds < limits.rounding_odds:
        return Finding(
            UNKNOWN, "adapter",
            f"{told}; which side was rounded cannot be told (fits {_three(e.fits)}, "
            f"log-odds {e.odds:.0f})",
        )  # fmt: skip
    numbers = f"(energy beyond the rank {fit:.2f} of what that leaves, log-odds {e.odds:.0f})"
    if hypothesis == 0:
        return Finding("ancestor", "adapter", f"{told}, and the VLM alone was rounded {numbers}")
    if hypothesis == 1:
        return Finding(
            "sibling" if leaf else "descendant", "adapter",
            f"{told}, and the reference alone was rounded {numbers}: it is a merge onto what the "
            "VLM holds",
        )  # fmt: skip
    return Finding(
        "sibling", "adapter", f"{told}, and both were rounded {numbers}: two merges onto one base"
    )


def _grid(e: Evidence, _: int, leaf: bool, limits: Thresholds) -> Finding | None:
    """The finer stored of two models still stands about the other's coarse values."""
    if not (e.near >= limits.near_grid and e.rounded <= limits.grid):
        return None
    told = (
        f"{e.near:.2%} of elements are nearer to the other's coarser value than its spacing, with "
        f"{e.rounded:.2f} of the energy that rounding would leave: the finer one started there"
    )
    if e.finer:
        return Finding("ancestor", "grid", told)
    return Finding("sibling" if leaf else "descendant", "grid", told)


def _three(values: tuple[float, float, float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
