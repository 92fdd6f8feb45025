"""Which row of a reference's vocabulary stands for the same token as a row of the VLM's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from mixlab.checkpoint import TensorSource
from mixlab.probe._grid import effective_format
from mixlab.probe._opening import Tensor
from mixlab.probe._reading import PART, read_float
from mixlab.probe._streaming import Sums, add_values


@dataclass(frozen=True)
class Tokens:
    """How two vocabularies agree.

    Args:
        shared: tokens that both have.
        moved: of them, those with another id.
        mine, its: tokens of the VLM and of the reference.
        rows: int64, for each id of the VLM the reference's id of the same token, -1 for none.
    """

    shared: int
    moved: int
    mine: int
    its: int
    rows: np.ndarray


def compare_tokens(mine: Mapping[str, int] | None, its: Mapping[str, int] | None) -> Tokens | None:
    """Match two vocabularies by token string; None where one has none."""
    if mine is None or its is None:
        return None
    shared = mine.keys() & its.keys()
    rows = np.full(1 + max(mine.values(), default=-1), -1, np.int64)
    ids = np.array([(mine[t], its[t]) for t in shared], np.int64).reshape(-1, 2)
    ids = ids[(ids >= 0).all(1)]
    rows[ids[:, 0]] = ids[:, 1]
    moved = int((ids[:, 0] != ids[:, 1]).sum())
    return Tokens(len(shared), moved, len(mine), len(its), rows)


def sum_table(
    sources: tuple[TensorSource, TensorSource], tensor: Tensor, at: int, tokens: Tokens | None
) -> Sums:
    """Sums over the rows of a vocabulary table that stand for the same tokens.

    Rows are matched by number where no tokenizer says more, or where no token moved.
    """
    sums, name = Sums(len(tensor.names)), tensor.names[at]
    assert name is not None
    vlm, reference = sources
    mine, its = vlm.entries[tensor.name], reference.entries[name]
    wide = int(np.prod(tensor.shape[1:], dtype=np.int64))
    if tokens is None or not tokens.moved:
        rows = np.arange(min(mine.shape[0], its.shape[0]))
    else:
        rows = tokens.rows[: mine.shape[0]].copy()
        rows[rows >= its.shape[0]] = -1
    for start, stop in _runs(rows, max(1, PART // wide)):
        count = (stop - start) * wide
        v = read_float(vlm, tensor.name, start * wide, count)
        r = read_float(reference, name, int(rows[start]) * wide, count)
        form = effective_format(v, mine.dtype)
        difference = torch.empty(count, dtype=torch.float64)
        add_values(sums, at, v, form, r, its.dtype, difference)
        sums.gram[at, at] += float(difference @ difference)
        sums.rows[at] += stop - start
        same = (v == r).view(stop - start, wide).all(1)
        sums.rows_equal[at] += int(same.sum())
    return sums


def _runs(rows: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """Stretches of rows that follow each other on both sides."""
    held = np.flatnonzero(rows >= 0)
    if not held.size:
        return []
    breaks = np.flatnonzero((np.diff(held) != 1) | (np.diff(rows[held]) != 1)) + 1
    found = []
    for run in np.split(held, breaks):
        found += [
            (int(a), min(int(a) + longest, int(run[-1]) + 1))
            for a in range(int(run[0]), int(run[-1]) + 1, longest)
        ]
    return found
