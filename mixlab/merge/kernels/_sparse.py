"""The sparsifying methods: a sieve for each model, then one pass for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mixlab.merge._method import Context, Tensors, kernel
from mixlab.merge._random import odds_drawn
from mixlab.merge.kernels._parts import Descent
from mixlab.merge.kernels._ranks import draw_by_rank
from mixlab.merge.kernels._sieves import Band, Lottery, Sieve, draw_lottery, l1_scale
from mixlab.merge.kernels._task import Sifted, mix
from mixlab.merge.methods._sparsify import count_largest, middle_ranks


@kernel("ties", "breadcrumbs", "breadcrumbs_ties", span="tensor")
def by_magnitude(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Thresholds are exact; see `find_cuts`."""
    assert base is not None
    sifted: list[Sifted] = []
    for index, tensor in enumerate(tensors):
        density, numel = settings["density"][index], out.numel()
        threshold = settings["threshold"][index] if "threshold" in settings else 0.0
        if "gamma" in settings:
            low, high = middle_ranks(density, settings["gamma"][index], numel)
        else:
            low, high = 0, count_largest(density, numel)
        if (low, high, threshold) == (0, numel, 0):
            sifted.append((None, 1.0))
            continue
        descent = Descent(tensor, base)
        band = Band(descent, low, high, threshold)
        sifted.append((band, l1_scale(descent, band) if settings["rescale"] else 1.0))
    mix(tensors, base, out, settings, sifted, name="breadcrumbs")


@kernel("dare_linear", "dare_ties", span="tensor")
def by_lot(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Drawn once where the L1 norm needs a pass of its own, else while mixing."""
    assert base is not None
    rescale, sifted = settings["rescale"], list[Sifted]()
    for index, tensor in enumerate(tensors):
        density = settings["density"][index]
        lottery = Lottery(density, context, index, out.numel())
        if density >= 1:
            sifted.append((None, 1.0))
        elif rescale == "inverse":
            sifted.append((lottery, 1 / float(odds_drawn(density)) if density > 0 else 1.0))
        elif rescale:
            sifted.append(draw_lottery(lottery, Descent(tensor, base)))
        else:
            sifted.append((lottery, 1.0))
    mix(tensors, base, out, settings, sifted, name="dare_linear")


@kernel("della", "della_linear", span="tensor")
def by_rank(
    tensors: Tensors,
    base: torch.Tensor | None,
    out: torch.Tensor,
    settings: Mapping[str, Any],
    context: Context,
    start: int,
) -> None:
    """Ranks by sorting rows, a block of them at a time."""
    assert base is not None
    rescale, sifted = settings["rescale"], list[Sifted]()
    for index, tensor in enumerate(tensors):
        density = settings["density"][index]
        if density >= 1:
            sifted.append((None, 1.0))
            continue
        if density <= 0 or out.numel() == 0:
            sifted.append((Lottery(density, context, index, out.numel()), 1.0))
            continue
        descent = Descent(tensor, base)
        drawn: Sieve = draw_by_rank(
            descent,
            out.shape,
            density,
            settings["epsilon"][index],
            rescale == "inverse",
            context,
            index,
        )
        scale = l1_scale(descent, drawn) if rescale and rescale != "inverse" else 1.0
        sifted.append((drawn, scale))
    mix(tensors, base, out, settings, sifted, name="della_linear")
