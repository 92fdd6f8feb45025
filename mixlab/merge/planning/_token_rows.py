"""Rows of vocabulary tables paired by the tokens that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mixlab.checkpoint import TensorEntry, read_vocabulary
from mixlab.merge._plan import PickedRows, VocabularyRows
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._tokenizers import same_tokenizer
from mixlab.spec import MixlabError

# Below this share of the smaller vocabulary two tokenizers are of two kinds, and an equal string
# is no evidence of an equal token.
SHARED = 0.5
_MEND = (
    "copy the tokenizer.json that the model was trained with into its folder, or leave the "
    "embeddings and lm_head out with `scope:`"
)


@dataclass(frozen=True, eq=False)
class Aligned:
    """Tokens that two models share.

    Args:
        mine, its: int64 of one length, row of each shared token; None where rows are taken by
            their number.
        known: int64, rows of the target that stand for a token; None where that is not known.
        assumed: what was not read but assumed, one sentence.
    """

    mine: np.ndarray | None = None
    its: np.ndarray | None = None
    known: np.ndarray | None = None
    assumed: str = ""


def align(target: Path, other: Path) -> Aligned:
    """Pair the rows of two models by the token strings of their tokenizers' files.

    Raises:
        MixlabError: a tokenizer file is not valid, or the tokenizers share too little for equal
            strings to mean equal tokens.
    """
    mine = read_vocabulary(target)
    its = mine if same_tokenizer(target, other) else read_vocabulary(other)
    if mine is None or its is None:
        return Aligned(assumed=_assumed(target, other, mine is None, its is None))
    rows = np.fromiter(mine.values(), np.int64, len(mine))
    known = np.unique(rows)
    if its is mine:
        return Aligned(known, known, known)
    found = np.fromiter((its.get(token, -1) for token in mine), np.int64, len(mine))
    shared = int(np.count_nonzero(found >= 0))
    if shared < SHARED * min(len(mine), len(its)):
        raise MixlabError(
            f"the tokenizers of {target} and {other} share {shared:,} of {len(mine):,} and "
            f"{len(its):,} tokens, too few to pair rows by them; leave the embeddings and lm_head "
            "out with `scope:`, or give a reference with this VLM's tokenizer"
        )
    rows, found = rows[found >= 0], found[found >= 0]
    pairs = np.unique(np.stack([rows, found], 1), axis=0)
    # Two tokens of one row that lead to two rows of the other: neither can be chosen.
    _, first, count = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    pairs = pairs[first[count == 1]]
    return Aligned(pairs[:, 0].copy(), pairs[:, 1].copy(), known)


def _assumed(target: Path, other: Path, mine: bool, its: bool) -> str:
    lacking = " and ".join(str(f) for f, lacks in ((target, mine), (other, its)) if lacks)
    if same_tokenizer(target, other):
        return (
            f"{target} and {other} have the same tokenizer files, whose tokens are not read: "
            "embeddings are merged row by row, padded rows too"
        )
    return (
        f"no tokenizer.json or vocab.json in {lacking}: it is assumed that one row of the "
        "embeddings means one token in all models, padded rows too"
    )


@dataclass
class Vocabularies:
    """Decides which rows of each vocabulary table are merged.

    Args:
        target: folder of the model that the output is made after.
        others: index among the plan's sources -> folder of each further model.
        mistakes: where tokenizers that cannot be trusted go.
        first_rows: of tables in pieces, the row of the vocabulary that each begins with. Only rows
            that stand in the same piece of all models are merged.
    """

    target: Path
    others: Mapping[int, Path]
    mistakes: Mistakes
    first_rows: Mapping[str, int] = field(default_factory=dict)
    _aligned: dict[int, Aligned] = field(default_factory=dict)
    _told: dict[tuple[object, ...], VocabularyRows] = field(default_factory=dict)

    def rows(
        self, entry: TensorEntry, others: Mapping[int, TensorEntry]
    ) -> tuple[int | None, PickedRows | None]:
        """Rows of a table of the target that are merged.

        Args:
            others: index among the plan's sources -> the same table there.

        Returns:
            How many of the first ones, None for all; or else which.
        """
        size, first = entry.shape[0], self.first_rows.get(entry.name, 0)
        row_of: dict[int, np.ndarray] = {}
        shared, known = np.ones(size, bool), np.ones(size, bool)
        for index, its in others.items():
            aligned = self._of(index)
            row_of[index] = found = np.full(size, -1, np.int64)
            if aligned.mine is None or aligned.its is None:
                if its.shape[0] != size:
                    self.mistakes.add(
                        f"{entry.name}: {size:,} rows in {self.target}, {its.shape[0]:,} in "
                        f"{self.others[index]} ({its.name}), and which of them mean the same is "
                        f"not known: {aligned.assumed.partition(':')[0]}",
                        _MEND,
                    )
                count = min(size, its.shape[0])
                found[:count] = np.arange(count)
            else:
                mine, other = aligned.mine - first, aligned.its - first
                fits = (mine >= 0) & (mine < size) & (other >= 0) & (other < its.shape[0])
                found[mine[fits]] = other[fits]
            if aligned.known is not None:
                known[:] = False
                tokens = aligned.known - first
                known[tokens[(tokens >= 0) & (tokens < size)]] = True
            shared &= found >= 0
        rows = np.flatnonzero(shared)
        self._tell(entry, others, row_of, rows, known)
        same = all(np.array_equal(found[rows], rows) for found in row_of.values())
        if same and len(rows) and rows[-1] == len(rows) - 1:
            return (None if len(rows) == size else len(rows)), None
        return None, PickedRows(rows, {i: found[rows] for i, found in row_of.items()})

    def report(self) -> tuple[VocabularyRows, ...]:
        """What was decided so far; tables of one size and fate stand together."""
        return tuple(self._told.values())

    def _of(self, index: int) -> Aligned:
        if index not in self._aligned:
            try:
                self._aligned[index] = align(self.target, self.others[index])
            except MixlabError as error:
                self.mistakes.add(str(error))
                self._aligned[index] = Aligned()
        return self._aligned[index]

    def _tell(
        self,
        entry: TensorEntry,
        others: Mapping[int, TensorEntry],
        row_of: Mapping[int, np.ndarray],
        rows: np.ndarray,
        known: np.ndarray,
    ) -> None:
        kept = np.ones(entry.shape[0], bool)
        kept[rows] = False
        dropped = {
            self.others[index].resolve().name: one.shape[0] - len(rows)
            for index, one in others.items()
        }
        assumed = dict.fromkeys(self._of(index).assumed for index in others)
        lacking = int(np.count_nonzero(kept & known))
        padded = int(np.count_nonzero(kept & ~known))
        key = (len(rows), lacking, padded, *dropped.items())
        before = self._told[key].tables if key in self._told else ()
        self._told[key] = VocabularyRows(
            (*before, entry.name),
            len(rows),
            lacking,
            padded,
            dropped,
            tuple(text for text in assumed if text),
        )


def warnings_of(report: Sequence[VocabularyRows]) -> list[str]:
    """What was assumed, each once."""
    return list(dict.fromkeys(text for one in report for text in one.assumed))
