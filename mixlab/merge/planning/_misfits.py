"""Whether one tensor of all models can be merged: shapes, dtypes, rows, whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mixlab.checkpoint import TensorEntry, tensor_place
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._opening import Side
from mixlab.merge.planning._pairing import is_position_table
from mixlab.merge.planning._same import WHOLE, same_bytes

FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_NUMBERS = frozenset({"I16", "U16", "I32", "U32", "I64", "U64", "BOOL", "C64"})
_SCOPE = "leave them out with `scope:`, or use models of one architecture"
_PACKED = "these look like packed (quantised) weights; give the unquantised model"


@dataclass
class Fitting:
    """Holds the other models' tensors against the target's.

    Args:
        target, extras: the model that the output is made after, and models' further tensors.
        extra: what the method calls those.
        mistakes: where misfits go.
    """

    target: Side
    extras: Sequence[Side]
    extra: str
    mistakes: Mistakes
    _widths: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def fits(self, entry: TensorEntry, partners: Sequence[Side]) -> bool:
        """Whether a floating tensor can be merged; mistakes say why not."""
        name, before = entry.name, self.mistakes.count
        for side in (*partners, *self.extras):
            if name not in side.pairs:
                self.mistakes.add(
                    f"{name}: {side.folder} has no tensor for it",
                    f"{self.extra} needs one tensor for each that is merged; leave the others out "
                    "with `scope:`",
                )
                continue
            its = side.entry(name)
            mine, where = self.target.file(name), str(side.file(name))
            where += "" if its.name == name else f" ({its.name})"
            if its.shape != entry.shape and not _other_rows(entry, its):
                self.mistakes.add(
                    f"{name}: {list(entry.shape)} in {mine}, {list(its.shape)} in {where}", _SCOPE
                )
            elif its.dtype not in FLOATS:
                self.mistakes.add(
                    f"{name}: {entry.dtype} in {mine}, {its.dtype} in {where}",
                    _SCOPE if its.dtype in _NUMBERS else _PACKED,
                )
            elif its.dtype != entry.dtype and side.role != "extra":
                self._widths[str(side.folder), its.dtype, entry.dtype] += 1
        return self.mistakes.count == before

    def rows(self, entry: TensorEntry, sides: Sequence[Side]) -> int | None:
        """How many rows of a vocabulary table all models have; None where all of the target's."""
        if not entry.shape:
            return None
        fewest = min(side.entry(entry.name).shape[0] for side in (*sides, *self.extras))
        return fewest if fewest < entry.shape[0] else None

    def whole_numbers(self, entry: TensorEntry, partners: Sequence[Side]) -> bool:
        """Whether integers were compared, and not left to the merge; mistakes say what differs."""
        name, mine = entry.name, self.target.file(entry.name)
        matrix = len(entry.shape) > 1 and name.endswith(("weight", "packed"))
        if entry.dtype not in _NUMBERS or (matrix and entry.dtype != "BOOL"):
            self.mistakes.add(f"{name}: {entry.dtype} in {mine}", _PACKED)
            return True
        small = entry.stop - entry.start <= WHOLE
        for side in partners:
            its = side.entry(name)
            alike = (its.dtype, its.shape) == (entry.dtype, entry.shape)
            if alike and (not small or same_bytes(self.target.source, name, side.source, its.name)):
                continue
            told = "other values" if alike else f"{its.dtype}{list(its.shape)}"
            self.mistakes.add(
                f"{name}: {entry.dtype}{list(entry.shape)} in {mine}, {told} in {side.file(name)}; "
                "whole numbers cannot be averaged",
                _SCOPE,
            )
        return small or not partners

    def width_warnings(self) -> Iterator[str]:
        """One sentence for each pair of floating dtypes that were met."""
        for (folder, its, mine), count in self._widths.items():
            wide = "float64" if "F64" in (its, mine) else "float32"
            yield (
                f"{count} tensors of {folder} are {its}, the target's {mine}; they are merged in "
                f"{wide} and rounded once"
            )


def _other_rows(mine: TensorEntry, its: TensorEntry) -> bool:
    """Whether two tensors are vocabulary tables that differ in their number of rows alone."""
    return (
        tensor_place(mine.name).module in ("embeddings", "lm_head")
        and not is_position_table(mine.name)
        and len(mine.shape) == len(its.shape) > 0
        and mine.shape[1:] == its.shape[1:]
    )
