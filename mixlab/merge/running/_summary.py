"""From what threads collected to the report of a merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mixlab.checkpoint import combine_digest
from mixlab.merge._plan import MergePlan
from mixlab.merge.running._card import shown_name
from mixlab.merge.running._ledger import Ledger, Segments
from mixlab.merge.running._report import Digested, MergeReport

Known = dict[str, tuple[str, tuple[int, ...], Segments]]


def summarise(
    plan: MergePlan, out: Path, ledger: Ledger, linked: Sequence[str], written: int, seconds: float
) -> MergeReport:
    """The report; see its fields."""
    counts = plan.counts()
    inputs = []
    for index, (source, folder) in enumerate(zip(plan.sources, plan.folders, strict=True)):
        about = {name: (one.dtype, one.shape) for name, one in source.entries.items()}
        found = {name: got for (model, name), got in ledger.inputs.items() if model == index}
        inputs.append(_digested(shown_name(folder), about, found)[0])
    about = {one.name: (one.dtype, one.shape) for one in plan.written}
    output, known = _digested(out.name, about, ledger.output)
    return MergeReport(
        out=out,
        seconds=seconds,
        read=ledger.done - written,
        written=written,
        linked=tuple(linked),
        mixed=counts["mix"],
        kept=counts["keep"],
        dropped=counts["drop"],
        compared=ledger.compared,
        changed=ledger.changed,
        nonfinite=_nonfinite(plan, ledger),
        notes={note: tuple(sorted(names)) for note, names in sorted(ledger.notes.items())},
        inputs=tuple(inputs),
        output=output,
        seed=plan.seed,
        tensors={name: combine_digest({name: one}) for name, one in known.items()},
        warnings=plan.warnings,
        facts=plan.facts,
        vocabulary=plan.vocabulary,
    )


def _digested(
    name: str,
    about: Mapping[str, tuple[str, tuple[int, ...]]],
    found: Mapping[str, Segments],
) -> tuple[Digested, Known]:
    known: Known = {}
    for tensor, (dtype, shape) in about.items():
        if tensor in found:
            known[tensor] = (dtype, shape, found[tensor])
    digest = combine_digest(known) if known else ""
    return Digested(name, digest, len(known), len(about)), known


def _nonfinite(plan: MergePlan, ledger: Ledger) -> dict[str, tuple[int, int]]:
    found = {}
    for (model, name), parts in sorted(ledger.nonfinite.items()):
        shown = name if model < 0 else f"{shown_name(plan.folders[model])}: {name}"
        nan = sum(part[0] for part in parts.values())
        infinite = sum(part[1] for part in parts.values())
        found[shown] = (nan, infinite)
    return found
