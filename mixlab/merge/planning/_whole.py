"""Weights that can be averaged: those that are not stored quantised."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

_TEXT = ("text_config", "llm_config", "language_config")


def text_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's part of a config.json; all of it where there is no such part."""
    inner = (config.get(key) for key in _TEXT)
    return next((part for part in inner if isinstance(part, dict)), dict(config))


def check_whole(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse weights that are stored quantised.

    Raises:
        MixlabError: by which method, and how to dequantise them.
    """
    for part in (config, text_part(config)):
        about = part.get("quantization_config")
        if not about:
            continue
        how = about.get("quant_method", "") if isinstance(about, dict) else ""
        raise MixlabError(
            f"{folder / 'config.json'}: the weights are quantised"
            f"{f' ({how})' if how else ''} and cannot be averaged; give the unquantised model, or "
            "load it with transformers, call model.dequantize() and save_pretrained()"
        )
