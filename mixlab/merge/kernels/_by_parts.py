"""Elementwise formulas, applied part by part so that their scratch stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge.kernels._gram import BLOCK, exact_sum
from mixlab.merge.kernels._linear import keep_agreed_part
from mixlab.merge.methods._ram import count_moves, gains, merge_moves
from mixlab.merge.methods._sce import consensus, shares_of_squares, smallest_chosen, variance

# Elements of a part, a multiple of the length over which sums are taken.
PART = 16 * BLOCK


@kernel("ram", span="element")
def ram(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """The formula."""
    to = out.view(-1)
    for at, parts, reference in float_parts(tensors, base):
        theta = merge_moves(parts, reference, settings["epsilon"], [1.0] * len(parts))
        _write(to[at : at + PART], theta, [reference, *parts])


@kernel("ramplus_tl", span="tensor")
def ramplus_tl(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """A pass that counts, and one that merges."""
    epsilon, to = settings["epsilon"], out.view(-1)
    totals = [(0, 0)] * len(tensors)
    for _, parts, reference in float_parts(tensors, base):
        counts = count_moves(parts, reference, epsilon)
        totals = [(a + c, b + d) for (a, b), (c, d) in zip(totals, counts, strict=True)]
    gain = gains(totals, settings["r"], settings["alpha"])
    for at, parts, reference in float_parts(tensors, base):
        theta = merge_moves(parts, reference, epsilon, gain)
        _write(to[at : at + PART], theta, [reference, *parts])


@kernel("sce", span="tensor")
def sce(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Passes for the variances (if some are to be selected), the squares, and the merge."""
    to, share = out.view(-1), settings["select_topk"]
    least: float | None = None
    if share < 1:
        varied = torch.empty(to.numel())
        for at, parts, reference in float_parts(tensors, base):
            varied[at : at + PART] = variance([x - reference for x in parts])
        least = smallest_chosen(varied, share)
        del varied
    sums: list[list[float]] = [[] for _ in tensors]
    for _, parts, reference in float_parts(tensors, base):
        for vector, into in zip(_selected(parts, reference, least), sums, strict=True):
            into += _block_sums(vector.square_())
    weights = shares_of_squares([exact_sum(one) / max(1, to.numel()) for one in sums])
    for at, parts, reference in float_parts(tensors, base):
        theta = consensus(_selected(parts, reference, least), weights).add_(reference)
        _write(to[at : at + PART], theta, [reference, *parts])


def float_parts(
    tensors: Tensors, base: torch.Tensor | None
) -> Iterator[tuple[int, list[torch.Tensor], torch.Tensor]]:
    """(first element, the models' parts, the base's part), in float32 scratch that is reused."""
    assert base is not None
    flat = [x.view(-1) for x in (*tensors, base)]
    numel = flat[0].numel()
    rooms = torch.empty(len(flat), min(PART, numel)).unbind()
    for at in range(0, numel, PART):
        size = min(PART, numel - at)
        *parts, last = (
            room[:size].copy_(x[at : at + size]) for room, x in zip(rooms, flat, strict=True)
        )
        yield at, parts, last


def _write(to: torch.Tensor, theta: torch.Tensor, inputs: Tensors) -> None:
    to.copy_(theta)
    keep_agreed_part(to, inputs)


def _selected(parts: Tensors, base: torch.Tensor, least: float | None) -> list[torch.Tensor]:
    vectors = [x - base for x in parts]
    if least is not None:
        chosen = variance(vectors).ge_(least)
        vectors = [v.mul_(chosen) for v in vectors]
    return vectors


def _block_sums(values: torch.Tensor) -> list[float]:
    whole = values.numel() // BLOCK * BLOCK
    rest = [float(values[whole:].sum())] if whole < values.numel() else []
    return values[:whole].view(-1, BLOCK).sum(1).tolist() + rest
