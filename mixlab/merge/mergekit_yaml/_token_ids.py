"""Token ids in configs (end of text, padding, images) after the vocabulary was put in order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixlab.checkpoint import read_json_object
from mixlab.store import write_json

_ENDS = ("_token_id", "_token_ids", "_token_index")
_GENERATION = "generation_config.json"


def follow_tokens(config: Mapping[str, Any], ids: Mapping[int, int]) -> dict[str, Any]:
    """A copy of a config in which each token id is the one that its token has now.

    mergekit leaves them as they were, so that with another model's tokenizer a text may never end.

    Args:
        ids: old id -> new id; others stay.
    """
    return {key: _follow(key, value, ids) for key, value in config.items()}


def follow_generation(
    files: Mapping[str, Path], ids: Mapping[int, int], folder: Path
) -> dict[str, Path]:
    """Side files with a generation config that follows the tokens; a changed one is in `folder`."""
    path = files.get(_GENERATION)
    if path is None:
        return dict(files)
    data = read_json_object(path)
    changed = follow_tokens(data, ids)
    if json.dumps(changed) == json.dumps(data):
        return dict(files)
    return {**files, _GENERATION: write_json(folder / _GENERATION, changed)}


def _follow(key: str, value: Any, ids: Mapping[int, int]) -> Any:
    if isinstance(value, dict):
        return follow_tokens(value, ids)
    if not key.endswith(_ENDS):
        return value
    if isinstance(value, list):
        return [_follow(key, item, ids) for item in value]
    return ids.get(value, value) if type(value) is int else value
