"""What two models share, in the strongest directions of a matrix and in the rest."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import torch

_STRONGEST = 4


def measure_directions(mine: torch.Tensor, its: torch.Tensor, name: str) -> np.ndarray:
    """Sums from which the rates of `rates` follow; they add over matrices.

    Training builds strong directions upon a random start, whose own directions are all about
    equally weak. What was tuned from R keeps R's strong directions at least as well as the rest.
    Two trainings from one random start share the start, and each has strong directions of its own.

    Args:
        mine, its: matrices of one shape, floating.

    Returns:
        float64 [2, 4], first with the reference's directions, then with the VLM's: product with
        the other model and square, along the strongest directions, then over all the rest.
    """
    found = []
    both = (mine * its).double().sum()
    for own, other in ((its, mine), (mine, its)):
        left, values, right = _strongest(own, name)
        along = ((left.T @ other) * right).sum(1).double() @ values.double()
        square = (values.double() ** 2).sum()
        found.append([along, square, both - along, (own.double() ** 2).sum() - square])
    return np.array(found, dtype=np.float64)


def rates(sums: np.ndarray) -> tuple[float, float]:
    """Rate kept along the strongest directions over that of the rest, of R's and of V's."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (sums[:, 0] / sums[:, 1]) / (sums[:, 2] / sums[:, 3])
    return float(ratio[0]), float(ratio[1])


def _strongest(matrix: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    wide = min(_STRONGEST + 8, *matrix.shape)
    seed = torch.randn(matrix.shape[1], wide, generator=generator, dtype=matrix.dtype)
    basis = torch.linalg.qr(matrix @ seed)[0]
    for _ in range(3):
        basis = torch.linalg.qr(matrix @ (matrix.T @ basis))[0]
    left, values, right = torch.linalg.svd(basis.T @ matrix, full_matrices=False)
    return basis @ left[:, :_STRONGEST], values[:_STRONGEST], right[:_STRONGEST]
