"""Whether a reference is a VLM's ancestor, a sibling, a stranger, or related somehow."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.probe._cards import Card, describe, names_as_base, read_card
from mixlab.probe._evidence import Evidence, gather
from mixlab.probe._low_rank import HYPOTHESES
from mixlab.probe._rules import KINDS, UNKNOWN, Finding, Kind, judge_pair
from mixlab.probe._thresholds import Thresholds
from mixlab.probe._triangle import Triangle, find_triangles, growth, later, nearest_ancestor
from mixlab.probe._weights import Comparison, compare_weights

if TYPE_CHECKING:
    import pandas as pd

_APART = ("stranger", "related, neurons permuted")


@dataclass(frozen=True)
class Verdict:
    """What one reference is to the VLM.

    Args:
        reference: its folder.
        verdict: see `mixlab lineage --help`.
        rule: the name of the rule that gave it.
        because: the rule's numbers.
        evidence: all numbers.
        support: what names, cards, tokenizers and configs say; it decided nothing, save where
            `because` names it.
    """

    reference: Path
    verdict: Kind
    rule: str
    because: str
    evidence: Evidence
    support: tuple[str, ...]


@dataclass(frozen=True)
class Lineage:
    """Verdicts on all references of a VLM.

    Args:
        vlm: its folder.
        verdicts: in the order given.
        triangles: the VLM with each two related references, by index.
        comparison: the weights.
        thresholds: that the rules used.
    """

    vlm: Path
    verdicts: tuple[Verdict, ...]
    triangles: tuple[Triangle, ...]
    comparison: Comparison
    thresholds: Thresholds

    @property
    def ranking(self) -> list[Verdict]:
        """Nearest kin first: by kind of verdict, then by distance."""
        return sorted(
            self.verdicts, key=lambda v: (KINDS.index(v.verdict), v.evidence.distance)
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """The study's table `lineage`: a row a reference.

        Columns: vlm, reference, verdict, rule, because, and the fields of `Evidence` (`fits` and
        `scores` as fit_vlm, fit_reference, … by the names of `HYPOTHESES`).
        """
        import pandas as pd

        rows = []
        for one in self.verdicts:
            numbers = dataclasses.asdict(one.evidence)
            for field, word in (("fits", "fit"), ("scores", "score")):
                sides = zip(HYPOTHESES, numbers.pop(field), strict=True)
                numbers |= {f"{word}_{side}".replace(" ", "_"): value for side, value in sides}
            rows.append(
                {
                    "vlm": str(self.vlm), "reference": str(one.reference), "verdict": one.verdict,
                    "rule": one.rule, "because": one.because, **numbers,
                }
            )  # fmt: skip
        return pd.DataFrame(rows)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data for JSON; what was not measured is None."""
        return {
            "vlm": str(self.vlm),
            "verdicts": [
                {
                    "reference": str(v.reference), "verdict": v.verdict, "rule": v.rule,
                    "because": v.because, "evidence": _plain(dataclasses.asdict(v.evidence)),
                    "support": list(v.support),
                }
                for v in self.verdicts
            ],
            "ranking": [str(v.reference) for v in self.ranking],
            "triangles": _plain(self.comparison.triangles().to_dict("records")),
            "thresholds": dataclasses.asdict(self.thresholds),
        }  # fmt: skip


def find_lineage(
    vlm: str | Path,
    references: Sequence[str | Path],
    *,
    thresholds: Thresholds | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Lineage:
    """Say what each reference is to a VLM, and on what evidence.

    The first may be a language model too; it has then no vision part from which a direction could
    follow. Weights decide. Cards are heard in one place: whether a reference that the weights place
    beyond the ancestor is a sibling or an earlier ancestor.

    Raises:
        MixlabError: see `compare_weights`.
    """
    limits = thresholds or Thresholds()
    comparison = compare_weights(vlm, references, thresholds=limits, progress=progress)
    models = comparison.models
    evidence = [gather(comparison, at) for at in range(len(references))]
    leaves = [models.vlm[0] and not sees for sees in models.vlm[1:]]
    findings = [judge_pair(e, leaf, limits) for e, leaf in zip(evidence, leaves, strict=True)]
    cards = [read_card(f, c) for f, c in zip(models.folders, models.configs, strict=True)]
    related = [
        at for at, found in enumerate(findings) if found.verdict not in _APART and leaves[at]
    ]
    grams = [
        s.gram for t, s in zip(models.tensors, comparison.tensors, strict=True) if t.matrix
    ]  # fmt: skip
    triangles = find_triangles(comparison.matrices.gram, grams, related, limits)
    findings = _with_triangles(comparison, findings, triangles, related, cards, limits)
    return Lineage(
        models.folders[0],
        tuple(
            Verdict(
                models.folders[at + 1], f.verdict, f.rule, f.because, evidence[at],
                tuple(describe(models, at, cards[0], cards[at + 1], comparison.tokens[at])),
            )
            for at, f in enumerate(findings)
        ),
        tuple(triangles),
        comparison,
        limits,
    )  # fmt: skip


def _with_triangles(
    comparison: Comparison,
    findings: Sequence[Finding],
    triangles: Sequence[Triangle],
    related: Sequence[int],
    cards: Sequence[Card],
    limits: Thresholds,
) -> list[Finding]:
    """Findings about pairs, and what an ancestor among the references says of the others."""
    found = list(findings)
    known = [at for at in related if found[at].verdict == "ancestor"]
    middle = nearest_ancestor(triangles)
    if not known and middle is not None and found[middle].verdict == UNKNOWN:
        found[middle] = _middle(middle, triangles, comparison)
        known = [middle]
    if len(known) == 1:
        for at in related:
            if at != known[0] and found[at].verdict == UNKNOWN:
                found[at] = _beyond(comparison, known[0], at, cards, limits)
    elif len(related) > 1:
        for at in related:
            if found[at].verdict == UNKNOWN and not known:
                told = "; no reference stands in the middle of a triangle"
                found[at] = dataclasses.replace(found[at], because=found[at].because + told)
    return found


def _middle(at: int, triangles: Sequence[Triangle], comparison: Comparison) -> Finding:
    told = []
    for one in triangles:
        if one.middle == at:
            side = one.pair.index(at)
            other = comparison.models.folders[one.pair[1 - side] + 1].name
            told.append(
                f"with {other}: cosine {one.cosines[1 + side]:.3f} here, "
                f"{one.cosines[2 - side]:.3f} there, {one.cosines[0]:.3f} at the VLM"
            )
    # A sibling that went m from the base has cosine m^2 / (|V - M| |S - M|) here.
    close = max(0.0, min(t.cosines[1 + t.pair.index(at)] for t in triangles if t.middle == at))
    told.append(
        f"a model tuned from it by up to {close**0.5:.0%} of their ways would look the same"
    )
    return Finding("ancestor", "triangle", "middle of three, " + "; ".join(told))


def _beyond(
    comparison: Comparison, middle: int, at: int, cards: Sequence[Card], limits: Thresholds
) -> Finding:
    """What a reference is that the ancestor stands before: tuned from it, or its own ancestor."""
    name = comparison.models.folders[middle + 1].name
    rates = growth(comparison.matrices, middle, at)
    numbers = f"of the ancestor {rates[0]:.4f} and of this {rates[1]:.4f}"
    weights = later(rates, limits)
    said = {
        "leaf": names_as_base(cards[at + 1], cards[middle + 1]),
        "middle": names_as_base(cards[middle + 1], cards[at + 1]),
    }
    carded = [side for side, named in said.items() if named]
    sides = {*carded, *([weights] if weights else [])}
    told = f"{name} stands before it: not the ancestor"
    if len(sides) != 1:
        clash = "cards and lengths disagree" if sides else "neither card nor lengths tell"
        return Finding(
            UNKNOWN, "beyond",
            f"{told}; a sibling if it was tuned from {name}, an earlier ancestor if {name} was "
            f"tuned from it: {clash} (product by the square {numbers})",
        )  # fmt: skip
    reasons = [f"product by the square {numbers}"] if weights else []
    reasons += ["its card names it" if "leaf" in carded else "the card names this"] * bool(carded)
    if sides == {"leaf"}:
        return Finding("sibling", "beyond", f"{told}, and tuned from it ({'; '.join(reasons)})")
    return Finding(
        "earlier ancestor", "beyond", f"{told}, which was tuned from this ({'; '.join(reasons)})"
    )


def _plain(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_plain(value) for value in found]
    if isinstance(found, float) and not math.isfinite(found):
        return None
    return found.item() if hasattr(found, "item") else found
