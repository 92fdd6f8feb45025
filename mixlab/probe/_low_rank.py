"""Is the change of a matrix of low rank but for rounding, and who was rounded?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from zlib import crc32

import torch

from mixlab.checkpoint import TensorSource
from mixlab.probe._grid import effective_format, spacing
from mixlab.probe._reading import PART, parts, read_float

# LoRA is trained with ranks up to 256, mostly 8 to 128.
_LARGEST, _FIRST, _SHOWN = 160, 24, 8
# Of the energy, what a first look must catch for a second to be worth its time.
_PROMISING = 0.04
# How far above noise's largest singular value a direction must stand.
_EDGE = 1.5
_ROUNDS, _BLOCK = 1, 256
# Matrices up to this size are worked on in float64, for checkpoints stored in float32.
_SMALL = 1 << 20


# How often V and R were rounded on the way between them, in units of one rounding: a model in the
# middle of two merges is coarse as V here and as R there.
HYPOTHESES: dict[str, tuple[float, float]] = {
    "vlm": (1.0, 0.0),
    "reference": (0.0, 1.0),
    "both": (1.0, 1.0),
    "vlm twice": (1.5, 0.5),
    "reference twice": (0.5, 1.5),
}


@dataclass(frozen=True)
class LowRank:
    """What a low rank explains of one change V - R.

    Args:
        share: of |V - R|^2, by the 8 strongest directions.
        rank: the smallest that explains all but rounding; None where there is none.
        elements: measured.
        fits: energy beyond the rank over what each of `HYPOTHESES` leaves.
        scores: log-likelihoods of the hypotheses.
    """

    share: float
    rank: int | None
    elements: int = 0
    fits: tuple[float, ...] = (math.nan,) * 5
    scores: tuple[float, ...] = (math.nan,) * 5


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
    rounded, and twice the energy stands there; so it does after two merges in a row. Elements that
    moved into another binade have other spacings in V and in R, and tell which were rounded.

    Args:
        noise_limit: energy beyond the rank, in units of two roundings.
    """
    dtype = torch.float64 if shape[0] * shape[1] <= _SMALL else torch.float32
    change, energies = _difference(vlm, name, reference, its, shape, dtype)
    total = float(_energy(change, change[:, :0]))
    top = max(1, min(_LARGEST, min(shape) // 4))
    basis, values = _sketch(change, min(_FIRST, top), name)
    if top > _FIRST and float((values.double() ** 2).sum()) / total < _PROMISING:
        return LowRank(_share(values, total), None)
    basis, values = _sketch(change, top, name)
    share = _share(values, total)
    # Below the spacing a change is zero or a whole step, and no rank can be told.
    if total < 4 * sum(energies):
        return LowRank(share, None)
    beyond = float(_energy(change, basis))
    rank = _count(values, top, beyond, shape)
    tail = beyond + float((values[rank:].double() ** 2).sum())
    if not 0 < rank <= top or tail > noise_limit * sum(energies) * _free(rank, shape):
        return LowRank(share, None)
    # A part is enough to tell who was rounded.
    rows = min(shape[0], max(1, PART // shape[1]))
    kept = basis[:, :rank]
    rest = change[:rows] - kept[:rows] @ (kept.T @ change)
    means = energies[0] / change.numel(), energies[1] / change.numel()
    return _weigh(rest, vlm, name, reference, its, LowRank(share, rank), means, _free(rank, shape))


def _count(values: torch.Tensor, top: int, beyond: float, shape: tuple[int, int]) -> int:
    """Directions that stand out of noise of the energy beyond all of them.

    The largest singular value of noise is sigma (sqrt(m) + sqrt(n)) (Geman 1980).
    """
    rows, columns = shape
    deviation = (beyond / (rows * columns * _free(len(values), shape))) ** 0.5
    edge = _EDGE * deviation * (rows**0.5 + columns**0.5)
    return int((values > edge).sum())


def _difference(
    vlm: TensorSource, name: str, reference: TensorSource, its: str, shape: tuple[int, int],
    dtype: torch.dtype,
) -> tuple[torch.Tensor, tuple[float, float]]:  # fmt: skip
    """V - R, and the energies that one rounding of V and of R leave."""
    change = torch.empty(shape[0] * shape[1], dtype=dtype)
    energies = [0.0, 0.0]
    for start, count in parts(change.numel()):
        v, r = read_float(vlm, name, start, count), read_float(reference, its, start, count)
        torch.sub(v.to(dtype), r.to(dtype), out=change[start : start + count])
        for at, variance in enumerate(_variances(v, r, vlm, name, reference, its)):
            energies[at] += float(variance.sum())
    return change.view(shape), (energies[0], energies[1])


def _variances(
    v: torch.Tensor,
    r: torch.Tensor,
    vlm: TensorSource,
    name: str,
    reference: TensorSource,
    its: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each element's rounding in V and in R: spacing^2 / 12."""
    one = spacing(v, effective_format(v, vlm.entries[name].dtype))
    two = spacing(r, effective_format(r, reference.entries[its].dtype))
    return one.double().square_().div_(12), two.double().square_().div_(12)


def _sketch(change: torch.Tensor, rank: int, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The strongest directions on the left, orthonormal, and their singular values."""
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    wide = min(rank + 8, *change.shape)
    seed = torch.randn(change.shape[1], wide, generator=generator, dtype=change.dtype)
    basis = torch.linalg.qr(change @ seed)[0]
    for _ in range(_ROUNDS):
        basis = torch.linalg.qr(change @ torch.linalg.qr(change.T @ basis)[0])[0]
    # The small factor's Gram matrix would lose the weak directions; its QR does not.
    small = torch.linalg.qr((basis.T @ change).T, mode="r")[1].T
    left, values, _ = torch.linalg.svd(small)
    return basis @ left, values


def _weigh(
    rest: torch.Tensor,
    vlm: TensorSource,
    name: str,
    reference: TensorSource,
    its: str,
    found: LowRank,
    means: tuple[float, float],
    free: float,
) -> LowRank:
    """Hold what stands beyond the rank against one rounding of V, of R, and of both.

    The fit of the rank takes up a share of the noise and spreads another over all elements.

    Args:
        rest: the first rows of what the rank does not explain.
        means: of the variances of V's and of R's rounding.
        free: share of noise that the fit leaves.
    """
    count = rest.numel()
    v, r = read_float(vlm, name, 0, count), read_float(reference, its, 0, count)
    one, two = _variances(v, r, vlm, name, reference, its)
    square = rest.reshape(-1).double() ** 2
    # What was added may have been rounded itself, to the format of what it was added to.
    added = v.double().sub_(r).sub_(rest.reshape(-1))
    form = effective_format(v, vlm.entries[name].dtype)
    extra = spacing(added, form).square_().div_(12)
    fits, scores = [], []
    for mine, theirs in HYPOTHESES.values():
        own = mine * one + theirs * two
        spread = (mine * means[0] + theirs * means[1]) * (free - free**2)
        tried = [_likelihood(square, x * free**2 + spread) for x in (own, own + extra)]
        score, fit = max(tried)
        fits.append(fit)
        scores.append(score)
    return LowRank(found.share, found.rank, count, tuple(fits), tuple(scores))


def _likelihood(square: torch.Tensor, variance: torch.Tensor) -> tuple[float, float]:
    """Log-likelihood of normal values, and their energy over that expected."""
    score = -0.5 * float((variance.log() + square / variance).sum())
    return score, float(square.sum() / variance.sum())


def _energy(change: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Energy beyond the basis; row blocks are added in float64, or digits would be lost."""
    inside = basis.T @ change
    blocks = zip(change.split(_BLOCK), basis.split(_BLOCK), strict=True)
    return torch.stack([((c - b @ inside) ** 2).sum().double() for c, b in blocks]).sum()


def _share(values: torch.Tensor, total: float) -> float:
    return float((values[:_SHOWN].double() ** 2).sum()) / total


def _free(rank: int, shape: tuple[int, int]) -> float:
    """Share of noise that a fit of this rank leaves."""
    return (1 - rank / shape[0]) * (1 - rank / shape[1])
