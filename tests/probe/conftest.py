"""Planted worlds, trained once and kept between runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.probe.planting import World, grow


@pytest.fixture(scope="session")
def world_of(request: pytest.FixtureRequest) -> Callable[[int], World]:
    """The world of a seed. A change of `grow` needs a new name here."""
    folder = request.config.cache.mkdir("lineage-worlds-2")

    def world(seed: int) -> World:
        file = folder / f"{seed}.pt"
        if not file.exists():
            torch.save(grow(seed).models, file)
        return World(seed, torch.load(file))

    return world
