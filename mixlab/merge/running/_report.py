"""What a merge says while it runs and when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixlab.merge._plan import VocabularyRows
from mixlab.store import readable


@dataclass(frozen=True)
class Progress:
    """How far a merge is.

    Args:
        done, total: bytes read and written, of all that will be.
        seconds: since the first byte.
        tensor: that was worked on last.
    """

    done: int
    total: int
    seconds: float
    tensor: str

    @property
    def rate(self) -> float:
        """Bytes a second so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds left at that rate; None before there is one."""
        return (self.total - self.done) / self.rate if self.done and self.seconds > 0 else None


@dataclass(frozen=True)
class Digested:
    """The digest of a model's tensors, or of those that were read in full.

    Args:
        name: the folder as the recipe names it.
        digest: equal for equal tensors, however they are spread over files; empty where none was
            read in full, or digests were not asked for.
        tensors, of: how many it covers, and how many there are.
    """

    name: str
    digest: str
    tensors: int
    of: int


@dataclass(frozen=True)
class MergeReport:
    """What was done.

    Args:
        out: the finished folder.
        seconds: of wall time, from the check of the output folder to its rename.
        read, written: bytes of tensors.
        linked: shard files taken over whole, without being rewritten.
        mixed, kept, dropped: numbers of tensors.
        compared, changed: elements of mixed tensors held against the target's (those that have
            one among their inputs), and how many have other bits.
        nonfinite: tensor -> (NaN, infinite) values, where allowed; inputs' as `FOLDER: NAME`.
        notes: a method's note ("handed to lerp") -> names of tensors.
        inputs, output: digests.
        tensors: digest of each tensor of the output.
        warnings: from the plan, one sentence each.
        checks: what a verification found, one sentence each.
        facts: from the plan, one sentence each.
        vocabulary: what became of rows that were aligned by token.
    """

    out: Path
    seconds: float
    read: int
    written: int
    linked: tuple[str, ...]
    mixed: int
    kept: int
    dropped: int
    compared: int
    changed: int
    nonfinite: Mapping[str, tuple[int, int]]
    notes: Mapping[str, tuple[str, ...]]
    inputs: tuple[Digested, ...]
    output: Digested
    seed: int
    tensors: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    vocabulary: tuple[VocabularyRows, ...] = ()

    @property
    def share_changed(self) -> float | None:
        """Share of compared elements that changed against the target; None where none was."""
        return self.changed / self.compared if self.compared else None

    def to_json(self) -> dict[str, Any]:
        """Plain data that depends on inputs and recipe alone: no times, no place of the output."""
        return {
            "seed": self.seed,
            "mixed": self.mixed,
            "kept": self.kept,
            "dropped": self.dropped,
            "compared_elements": self.compared,
            "changed_elements": self.changed,
            "nonfinite": {
                name: {"nan": nan, "infinite": infinite}
                for name, (nan, infinite) in self.nonfinite.items()
            },
            "notes": {note: list(names) for note, names in self.notes.items()},
            "warnings": list(self.warnings),
            "vocabulary": [
                {**vars(one), "tables": list(one.tables), "assumed": list(one.assumed)}
                for one in self.vocabulary
            ],
            "inputs": [vars(one) for one in self.inputs],
            "output": vars(self.output),
            "tensors": dict(self.tensors),
        }

    def lines(self) -> list[str]:
        """For people: one fact a line."""
        found = [
            f"{self.out}: {self.mixed} tensors mixed, {self.kept} kept, {self.dropped} dropped, "
            f"in {self.seconds:.1f} s ({readable(self.read)} read, "
            f"{readable(self.written)} written)"
        ]
        if self.share_changed is not None:
            found.append(
                f"changed against the target: {self.share_changed:.2%} of {self.compared:,} "
                "parameters in mixed tensors"
            )
        if self.linked:
            found.append(f"taken over whole: {', '.join(self.linked)}")
        for note, names in self.notes.items():
            found.append(f"{note}: {_tensors(len(names))} ({_few(names)})")
        for name, (nan, infinite) in self.nonfinite.items():
            found.append(f"not finite: {name} ({nan} NaN, {infinite} infinite)")
        found.extend(self.facts)
        found.extend(one.sentence() for one in self.vocabulary)
        found.extend(f"warning: {text}" for text in self.warnings)
        if self.output.digest:
            found.append(f"digest {self.output.digest}, seed {self.seed}")
        return [*found, *self.checks]


def _tensors(count: int) -> str:
    return f"{count} tensor{'' if count == 1 else 's'}"


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
