"""Rules from the evidence about one pair to a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from mixlab.probe._evidence import Evidence
from mixlab.probe._low_rank import HYPOTHESES
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
_FROM_REFERENCE: dict[str, tuple[Kind, str]] = {
    "vlm": ("ancestor", "the VLM alone was rounded, so that it was made from the reference"),
    "vlm twice": ("earlier ancestor", "the VLM was rounded, and a model between: two merges on"),
}
_TWO = (
    "both were rounded: two merges onto one base (in a row, the first of them short, or onto what "
    "the reference is a rounded copy of, would look the same)"
)
_BACK = "the reference alone was rounded: it is a merge onto what the VLM holds"
# What a hypothesis about rounding means where a text model cannot come from the VLM, and elsewhere.
_LEAF: dict[str, tuple[Kind, str]] = {
    **_FROM_REFERENCE,
    "both": ("sibling", _TWO),
    "reference": ("sibling", _BACK),
    "reference twice": ("sibling", "the reference was rounded, and a model between"),
}
_OTHER: dict[str, tuple[Kind, str]] = {
    **_FROM_REFERENCE,
    "both": ("sibling", _TWO),
    "reference": ("descendant", _BACK),
    "reference twice": ("descendant", "the reference was rounded, and a model between"),
}


@dataclass(frozen=True)
class Finding:
    """A verdict, the rule that gave it, and the rule's numbers in a sentence."""

    verdict: Kind
    rule: str
    because: str


def judge_pair(evidence: Evidence, leaf: bool, limits: Thresholds) -> Finding:
    """What the pair alone says; the first rule that fits.

    Args:
        leaf: the VLM sees and the reference does not, so that the reference was not trained from
            it (short of taking its backbone out, which leaves it frozen).
    """
    for rule in (_frozen, _copied, _apart, _shared_start, _adapter, _grid):
        found = rule(evidence, leaf, limits)
        if found is not None:
            return found
    return Finding(
        UNKNOWN,
        "related",
        f"cosine {evidence.cosine:.4f}, distance {evidence.distance:.4f}: they share weights; a "
        "full change of one pair looks the same from both ends",
    )


def _frozen(e: Evidence, leaf: bool, limits: Thresholds) -> Finding | None:
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


def _copied(e: Evidence, leaf: bool, limits: Thresholds) -> Finding | None:
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


def _apart(e: Evidence, leaf: bool, limits: Thresholds) -> Finding | None:
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


def _shared_start(e: Evidence, leaf: bool, limits: Thresholds) -> Finding | None:
    if not (e.cosine < limits.close and e.kept < limits.kept) or e.gains >= limits.gains:
        return None
    return Finding(
        "stranger", "random start",
        f"cosine {e.cosine:.4f}, but the strongest directions are kept at {e.kept:.2f} of the rate "
        f"of the rest (< {limits.kept:g}) and norm weights correlate {e.gains:.2f} "
        f"(< {limits.gains:g}): they share a random start, and nothing learned",
    )  # fmt: skip


def _adapter(e: Evidence, leaf: bool, limits: Thresholds) -> Finding | None:
    """A change of low rank but for rounding: the side that was rounded was made from the other."""
    if not e.measured or e.low_rank < limits.low_rank_tensors * e.measured:
        return None
    told = (
        f"{e.low_rank} of {e.measured} changed matrices are of rank {e.rank:.0f} or less but for "
        "rounding"
    )
    verdicts = _LEAF if leaf else _OTHER
    names = list(HYPOTHESES)
    if e.finer < 0:
        return Finding(
            UNKNOWN, "adapter",
            f"{told}; the reference is stored more finely, so that rounding of its own would not "
            "show: the ancestor, or a merge onto the same base",
        )  # fmt: skip
    best = e.scores.index(max(e.scores))
    verdict, meaning = verdicts[names[best]]
    odds = -max(s for n, s in zip(names, e.scores, strict=True) if verdicts[n][0] != verdict)
    fit = e.fits[best]
    if abs(fit - 1) > limits.rounding or odds < limits.rounding_odds:
        fits = ", ".join(f"{n} {f:.2f}" for n, f in zip(names, e.fits, strict=True))
        return Finding(
            UNKNOWN, "adapter",
            f"{told}; which side was rounded cannot be told (energy beyond the rank, over what "
            f"rounding leaves: {fits}; log-odds {odds:.0f})",
        )  # fmt: skip
    return Finding(
        verdict, "adapter",
        f"{told}; {meaning} (energy beyond the rank {fit:.2f} of what that leaves, log-odds "
        f"{odds:.0f})",
    )  # fmt: skip


def _grid(e: Evidence, leaf: bool, limits: Thresholds) -> Finding | None:
    """The finer stored of two models still stands about the other's coarse values."""
    if not (e.near >= limits.near_grid and e.rounded <= limits.grid):
        return None
    told = (
        f"{e.near:.2%} of elements are nearer to the other's coarser value than its spacing, with "
        f"{e.rounded:.2f} of the energy that rounding would leave: the finer one started there"
    )
    if e.finer > 0:
        return Finding("ancestor", "grid", told)
    return Finding("sibling" if leaf else "descendant", "grid", told)
