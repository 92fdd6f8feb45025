"""Totals behind a merge curve: weighted item contrasts, their covariances, and resampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """Scores [items, columns] of one line in one run, and each item's cluster code [items]."""

    values: Array
    codes: NDArray[np.int64]

    @property
    def groups(self) -> int:
        """Number of clusters."""
        return int(self.codes.max()) + 1 if len(self.codes) else 0

    def sums(self) -> tuple[Array, Array]:
        """Cluster sums [groups, columns] and cluster sizes [groups]."""
        size = np.bincount(self.codes, minlength=self.groups).astype(float)
        total = np.zeros((self.groups, self.values.shape[1]))
        np.add.at(total, self.codes, self.values)
        return total, size


def macro(blocks: list[Block]) -> Array:
    """Mean over blocks of each block's column means, float [columns]."""
    return np.mean([b.values.mean(axis=0) for b in blocks], axis=0)


def macro_covariance(blocks: list[Block]) -> tuple[Array, float]:
    """CR2 covariance [columns, columns] of `macro`, and its degrees of freedom (clusters - blocks).

    Blocks are independent; within one, residual cluster sums are divided by sqrt(1 - n_g/N)
    (Bell and McCaffrey 2002, intercept only).
    """
    width = blocks[0].values.shape[1]
    total, df = np.zeros((width, width)), 0
    for block in blocks:
        sums, size = block.sums()
        n = size.sum()
        residual = sums - size[:, None] * block.values.mean(axis=0)
        residual /= np.sqrt(np.maximum(1 - size / n, 1e-12))[:, None] * n
        total += residual.T @ residual / len(blocks) ** 2
        df += block.groups - 1
    return total, float(df)


def resample(blocks: list[Block], draws: int, rng: np.random.Generator) -> Array:
    """Bootstrap draws [draws, columns] of `macro`; clusters drawn again within each block."""
    out = np.zeros((draws, blocks[0].values.shape[1]))
    for block in blocks:
        sums, size = block.sums()
        groups = block.groups
        counts = rng.multinomial(groups, np.full(groups, 1 / groups), size=draws).astype(float)
        out += (counts @ sums) / (counts @ size)[:, None] / len(blocks)
    return out
