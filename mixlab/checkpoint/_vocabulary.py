"""Tokens and their ids, from the JSON files of a model folder; no tokenizer is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

_LIMIT = 200_000_000


def read_vocabulary(folder: Path) -> dict[str, int] | None:
    """Token -> id, from tokenizer.json, else vocab.json and added_tokens.json.

    Returns:
        None where the folder has none of these files.

    Raises:
        MixlabError: a file is damaged, or holds no vocabulary.
    """
    path = folder / "tokenizer.json"
    try:
        if path.is_file():
            data = _json(path)
            model = data["model"]["vocab"]
            # A Unigram model lists (token, score) in the order of ids.
            tokens = (
                dict(model)
                if isinstance(model, dict)
                else {token: row for row, (token, _) in enumerate(model)}
            )
            tokens.update({t["content"]: t["id"] for t in data.get("added_tokens") or ()})
        elif (folder / "vocab.json").is_file():
            tokens = dict(_json(folder / "vocab.json"))
            added = folder / "added_tokens.json"
            tokens.update(_json(added) if added.is_file() else {})
        else:
            return None
        if not all(isinstance(t, str) and type(row) is int for t, row in tokens.items()):
            raise ValueError("tokens and ids are not text and whole numbers")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, MixlabError):
            raise
        raise MixlabError(
            f"{path}: no tokenizer that can be read ({type(error).__name__}: {error}); copy or "
            "download the file again"
        ) from error
    return tokens


def _json(path: Path) -> Any:
    if path.stat().st_size > _LIMIT:
        raise MixlabError(f"{path}: longer than {_LIMIT} bytes; is it the right file?")
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise MixlabError(
            f"{path}: not valid JSON: {error}; copy or download the file again"
        ) from error


def read_bytes(path: Path) -> bytes:
    """A small file, whole.

    Raises:
        MixlabError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise MixlabError(f"{path}: cannot be read: {error.strerror}; mend that") from error
