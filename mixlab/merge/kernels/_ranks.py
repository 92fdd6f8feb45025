"""DELLA's draw by rank of magnitude, in blocks of rows."""

from __future__ import annotations

import math

import numpy as np
import torch

from mixlab.merge._method import Context
from mixlab.merge._random import odds_drawn, tickets, winning
from mixlab.merge.kernels import _parts
from mixlab.merge.kernels._parts import Descent
from mixlab.merge.kernels._sieves import Drawn
from mixlab.merge.methods._sparsify import check_epsilon, rank_odds


def draw_by_rank(
    descent: Descent,
    shape: torch.Size,
    density: float,
    epsilon: float,
    inverse: bool,
    context: Context,
    index: int,
) -> Drawn:
    """The mask of `keep_odds`; memory beside it is that of a block of rows.

    Ranks are exact: a key holds an element's magnitude bits above its index in the row, so that
    keys are distinct and sort as (magnitude, index) does, and the sorted keys name the elements.

    Args:
        shape: (n) is one row; of (a, b, …) a row is b elements, for each a and each of the rest.
        inverse: scale what is kept by 1 / odds, held as float32 for the whole tensor.
    """
    check_epsilon(density, epsilon)
    outer, row = (1, descent.numel) if len(shape) < 2 else (shape[0], shape[1])
    inner = descent.numel // (outer * row)
    odds = rank_odds(density, epsilon, row)
    # Inside (0, 1) a count of tickets fits in 16 bits; torch moves them as signed ones.
    limit_of_rank = torch.from_numpy(winning(odds.numpy()).astype(np.uint16).view(np.int16))
    factor_of_rank = (1 / torch.from_numpy(odds_drawn(odds.numpy()))).float()
    factors = torch.empty(descent.numel) if inverse else None
    drawn = Drawn(descent.numel, factors)
    place = torch.arange(row)
    slice_ = row * inner
    # Whole bytes of the mask in every block.
    step = math.lcm(slice_, 8) // slice_
    count = max(1, _parts.PART // slice_ // step) * step
    for first in range(0, outer, count):
        start, stop = first * slice_, min(outer, first + count) * slice_
        bits = torch.empty(stop - start, dtype=torch.int32)
        for at in range(start, stop, _parts.PART):
            to = min(stop, at + _parts.PART)
            bits[at - start : to - start].copy_(torch.from_numpy(descent.bits(at, to)))
        keys = _rows(bits, row, inner).to(torch.int64).bitwise_left_shift_(32).bitwise_or_(place)
        keys.numpy().sort(axis=1)
        order = keys.bitwise_and_(0xFFFFFFFF)
        limit = _by_rank(limit_of_rank, order, inner).numpy().view(np.uint16)
        drawn.record(tickets(context, index, start, stop - start) < limit, start)
        if factors is not None:
            factors[start:stop] = _by_rank(factor_of_rank, order, inner)
    return drawn


def _rows(flat: torch.Tensor, row: int, inner: int) -> torch.Tensor:
    return flat.view(-1, row, inner).transpose(1, 2).reshape(-1, row)


def _by_rank(of_rank: torch.Tensor, order: torch.Tensor, inner: int) -> torch.Tensor:
    """`of_rank` put where the elements of each row stand, flat in the tensor's order."""
    rows, row = order.shape
    placed = torch.empty((rows, row), dtype=of_rank.dtype)
    placed.scatter_(1, order, of_rank.expand(rows, row))
    return placed.view(-1, inner, row).transpose(1, 2).reshape(-1)
