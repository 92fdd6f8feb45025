"""Recipes that come with mixlab, by name. Their models are placeholders that the user fills."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def named_recipes() -> dict[str, Path]:
    """File of each packaged recipe, by name, sorted.

    The placeholders `vlm` and `reference` (and `ancestor`, in the recipes that measure from it)
    stand where a folder stands.
    """
    folder = Path(str(files(__name__)))
    return dict(sorted((path.stem, path) for path in folder.glob("*.yaml")))
