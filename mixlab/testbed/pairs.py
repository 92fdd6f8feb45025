"""Pairs that a sweep file may name instead of giving folders."""

from collections.abc import Callable
from pathlib import Path

from mixlab.testbed.build import build
from mixlab.testbed.fitting import Progress
from mixlab.testbed.folder import TestbedFolder


def _testbed(root: Path | None = None, progress: Progress | None = None) -> TestbedFolder:
    return build(root, progress=progress)


def _micro(root: Path | None = None, progress: Progress | None = None) -> TestbedFolder:
    return build(root, "micro", progress=progress)


def _smollm2(root: Path | None = None, progress: Progress | None = None) -> TestbedFolder:
    # Imported on demand: its weights come with an optional extra.
    from mixlab.testbed.smollm2 import build_smollm2

    return build_smollm2(root, progress)


PAIRS: dict[str, Callable[..., TestbedFolder]] = {
    "testbed": _testbed,
    "testbed-micro": _micro,
    "smollm2": _smollm2,
}
"""Name of a pair to the function that builds it: ``(root=None, progress=None) -> folder``."""
