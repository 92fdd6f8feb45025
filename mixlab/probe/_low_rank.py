"""Is the change of a matrix of low rank but for rounding, and who was rounded?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from zlib import crc32

import torch

from mixlab.checkpoint import TensorSource
from mixlab.probe._grid import effective_format, spacing
from mixlab.probe._reading import parts, read_float

# LoRA is trained with ranks up to 256, mostly 8 to 128.
_LARGEST, _FIRST, _SHOWN = 160, 24, 8
# Of the energy, what a first look must catch for a second to be worth its time.
_PROMISING = 0.04
# Matrices up to this size are worked on in float64, for checkpoints stored in float32.
_SMALL = 1 << 22


@dataclass(frozen=True)
class LowRank:
    """What a low rank explains of one change V - R.

    Args:
        share: of |V - R|^2, by the 8 strongest directions.
        rank: the smallest that explains all but rounding; None where there is none.
        elements: measured.
        fits: energy beyond the rank over what three hypotheses leave: V was rounded once (it was
            made from R), R was (R was made from V), both were (both were made from another).
        scores: log-likelihoods of the three.
    """

    share: float
    rank: int | None
    elements: int = 0
    fits: tuple[float, float, float] = (math.nan,) * 3
    scores: tuple[float, float, float] = (math.nan,) * 3


def measure_low_rank(
    vlm: TensorSource,
    name: str,
    reference: TensorSource,
    its: str,
    shape: tuple[int, int],
    noise_limit: float,
) -> LowRank:
    """Randomised SVD of V - R (Halko, Martinsson and Tropp 2011, algorithm 4.4), fixed seed.

    A merge of an adapter leaves V = round(R + B A): beyond the rank stands rounding alone, whose
    energy is known, spacing^2 / 12 an element. If V and R are both merges on one base, both were
    rounded, and twice the energy stands there. Elements that moved into another binade tell whether
    V or R was rounded.

    Args:
        noise_limit: energy beyond the rank, in units of two roundings.
    """
    dtype = torch.float64 if shape[0] * shape[1] <= _SMALL else torch.float32
    change, energies = _difference(vlm, name, reference, its, shape, dtype)
    total = float(_energy(change))
    top = max(1, min(_LARGEST, min(shape) // 4))
    basis, values = _sketch(change, min(_FIRST, top), 0, name)
    caught = float((values.double() ** 2).sum()) / total
    if top > _FIRST and caught < _PROMISING:
        basis, values = _sketch(change, min(_FIRST, top), 2, name)
        return LowRank(_share(values, total), None)
    basis, values = _sketch(change, top, 2, name)
    share = _share(values, total)
    # Below the spacing a change is zero or a whole step, and no rank can be told.
    if total < 4 * sum(energies):
        return LowRank(share, None)
    rest = basis.T @ change
    left, _, _ = torch.linalg.svd(rest, full_matrices=False)
    basis = basis @ left
    beyond = float(_energy(change - basis @ (basis.T @ change)))
    for rank in range(1, top + 1):
        tail = beyond + float((values[rank:].double() ** 2).sum())
        if tail <= noise_limit * sum(energies) * _free(rank, shape):
            kept = basis[:, :rank]
            change -= kept @ (kept.T @ change)
            return _weigh(change, vlm, name, reference, its, share, rank, energies)
    return LowRank(share, None)


def _difference(
    vlm: TensorSource, name: str, reference: TensorSource, its: str, shape: tuple[int, int],
    dtype: torch.dtype,
) -> tuple[torch.Tensor, tuple[float, float]]:  # fmt: skip
    """V - R, and the energies that one rounding of V and of R leave."""
    change = torch.empty(shape[0] * shape[1], dtype=dtype)
    energies = [0.0, 0.0]
    for start, count in parts(change.numel()):
        v, r = read_float(vlm, name, start, count), read_float(reference, its, start, count)
        change[start : start + count] = v.to(dtype) - r.to(dtype)
        for at, spaces in enumerate(_spaces(v, r, vlm, name, reference, its)):
            energies[at] += float((spaces**2).sum()) / 12
    return change.view(shape), (energies[0], energies[1])


def _spaces(
    v: torch.Tensor,
    r: torch.Tensor,
    vlm: TensorSource,
    name: str,
    reference: TensorSource,
    its: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    one = spacing(v, effective_format(v, vlm.entries[name].dtype)).double()
    two = spacing(r, effective_format(r, reference.entries[its].dtype)).double()
    return one, two


def _sketch(
    change: torch.Tensor, rank: int, rounds: int, name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Orthonormal columns that span the strongest directions, and singular values within them."""
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    wide = min(rank + 8, *change.shape)
    seed = torch.randn(change.shape[1], wide, generator=generator, dtype=change.dtype)
    basis = torch.linalg.qr(change @ seed)[0]
    for _ in range(rounds):
        basis = torch.linalg.qr(change.T @ basis)[0]
        basis = torch.linalg.qr(change @ basis)[0]
    return basis, torch.linalg.svdvals(basis.T @ change)


def _weigh(
    rest: torch.Tensor,
    vlm: TensorSource,
    name: str,
    reference: TensorSource,
    its: str,
    share: float,
    rank: int,
    energies: tuple[float, float],
) -> LowRank:
    """Hold what stands beyond the rank against one rounding of V, of R, and of both.

    The fit of the rank takes up a share of the noise and spreads another over all elements.
    """
    free = _free(rank, (rest.shape[0], rest.shape[1]))
    flat, energy = rest.reshape(-1), 0.0
    spread = [e / flat.numel() * (free - free**2) for e in (*energies, sum(energies))]
    expected, scores = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for start, count in parts(flat.numel()):
        v, r = read_float(vlm, name, start, count), read_float(reference, its, start, count)
        one, two = (s**2 / 12 for s in _spaces(v, r, vlm, name, reference, its))
        square = flat[start : start + count].double() ** 2
        energy += float(square.sum())
        for at, own in enumerate((one, two, one + two)):
            variance = own * free**2 + spread[at]
            expected[at] += variance.sum()
            scores[at] -= 0.5 * (variance.log() + square / variance).sum()
    fits, odds = (energy / expected).tolist(), scores.tolist()
    return LowRank(
        share, rank, flat.numel(), (fits[0], fits[1], fits[2]), (odds[0], odds[1], odds[2])
    )


def _energy(matrix: torch.Tensor) -> torch.Tensor:
    # One row block at a time in float64: a float32 sum over a hundred million loses digits.
    return torch.stack([(part.double() ** 2).sum() for part in matrix.split(256)]).sum()


def _share(values: torch.Tensor, total: float) -> float:
    return float((values[:_SHOWN].double() ** 2).sum()) / total


def _free(rank: int, shape: tuple[int, int]) -> float:
    """Share of noise that a fit of this rank leaves."""
    return (1 - rank / shape[0]) * (1 - rank / shape[1])
