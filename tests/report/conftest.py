from __future__ import annotations

from pathlib import Path

import pytest

from mixlab.report import build_report

from .planted import Plant, write_study


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A planted study of default effects, a third of the default items."""
    return write_study(tmp_path_factory.mktemp("planted"), Plant(scale=1 / 3, trials=10))


@pytest.fixture(scope="session")
def page(study: Path) -> str:
    """Its page."""
    return build_report(study).read_text(encoding="utf-8")
