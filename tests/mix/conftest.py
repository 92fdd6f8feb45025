"""A mix on disk, for the tests of this room."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixlab.mix import MixSpec, Source, load_sources

from .tiny import text_rows, write_image, write_rows


@pytest.fixture
def make_mix(tmp_path: Path) -> Callable[..., tuple[MixSpec, list[Source]]]:
    """Build a mix with a vision source `scenes` and a text source `facts`."""

    def make(vision: int = 40, text: int = 30, **settings: Any) -> tuple[MixSpec, list[Source]]:
        for i in range(8):
            write_image(tmp_path / f"images/{i}.png", 20 * i)
        write_rows(
            tmp_path / "scenes.jsonl",
            [{**row, "image": f"images/{i % 8}.png"} for i, row in enumerate(text_rows(vision))],
        )
        write_rows(tmp_path / "facts.jsonl", text_rows(text, words=3))
        spec = MixSpec.model_validate(
            {
                "name": "small",
                "sources": [
                    {"name": "scenes", "modality": "vision", "path": "here:scenes.jsonl"},
                    {"name": "facts", "modality": "text", "path": "here:facts.jsonl"},
                ],
                "text_fraction": 0.25,
                **settings,
            }
        )
        return spec, load_sources(spec, {"here": tmp_path})

    return make
