"""Draw rows from one source until each of its formats holds its tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from mixlab.spec import MixlabError

from ._encoding import EncodedRows, TooLong
from ._source import Source


@dataclass(frozen=True, slots=True)
class Drawn:
    """One drawn row: index in the source, pass over the source, supervised and all tokens."""

    row: int
    turn: int
    supervised: int
    tokens: int


@dataclass
class Cell:
    """Rows of one (source, format).

    Attributes:
        target: supervised tokens asked for.
        drawn: rows that fit below the target.
        extra: the next row, which would pass the target; taken or left when shares are rounded.
        filled: supervised tokens of `drawn`.
    """

    target: float
    drawn: list[Drawn] = field(default_factory=list)
    extra: Drawn | None = None
    filled: int = 0


@dataclass
class Draw:
    """Cells by format, and rows left out: (row, format) -> reason."""

    cells: dict[str, Cell]
    dropped: dict[tuple[int, str], str]


def pass_order(seed: int, name: str, turn: int, size: int) -> np.ndarray:
    """Row order int64 [size] of one pass over a source.

    Each pass has a seed of its own, made from the plan's seed, the source's name and the pass, so
    that adding a source or a pass changes no other order.
    """
    text = f"{seed}\x1f{name}\x1f{turn}"
    derived = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    return np.random.Generator(np.random.PCG64(derived)).permutation(size)


def draw(
    source: Source, targets: Mapping[str, float], rows: EncodedRows, *, seed: int, drops: bool
) -> Draw:
    """Walk pass after pass over the source; each row goes to the emptiest format that it fits.

    Formats share one walk, so that a row comes up once a pass, in one of the formats, and
    diverse formats see no fewer distinct rows than a single one.

    Args:
        targets: format -> supervised tokens.
        drops: leave over-long rows out instead of raising.

    Raises:
        MixlabError: a whole pass gives a format nothing, or a row can't be encoded.
    """
    result = Draw({fmt: Cell(target) for fmt, target in targets.items()}, {})
    open_cells = dict(result.cells)
    turn = -1
    while open_cells:
        turn += 1
        gained = False
        for row in pass_order(seed, source.name, turn, len(source.rows)).tolist():
            for fmt in _emptiest_first(open_cells, source.formats[row]):
                if (row, fmt) in result.dropped:
                    continue
                try:
                    supervised, tokens = rows.lengths(row, fmt)
                except TooLong as error:
                    if not drops:
                        raise _mend(error) from error
                    result.dropped[row, fmt] = "longer than the context"
                    continue
                cell, taken = open_cells[fmt], Drawn(row, turn, supervised, tokens)
                if cell.filled + supervised <= cell.target:
                    cell.drawn.append(taken)
                    cell.filled += supervised
                else:
                    cell.extra = taken
                    del open_cells[fmt]
                gained = True
                break
            if not open_cells:
                break
        if not gained:
            raise MixlabError(
                f"source {source.name!r}: no row is left for format(s) {', '.join(open_cells)}"
                + (f"; {len(result.dropped)} were dropped as longer than the context" * drops)
            )
    return result


def _emptiest_first(cells: Mapping[str, Cell], formats: tuple[str, ...]) -> Iterator[str]:
    fitting = [fmt for fmt in formats if fmt in cells]
    if len(fitting) > 1:
        fitting.sort(key=lambda fmt: cells[fmt].filled / cells[fmt].target)
    return iter(fitting)


def _mend(error: TooLong) -> TooLong:
    return TooLong(f"{error}; or set `drops: allow` in the mix to leave such rows out, counted")
