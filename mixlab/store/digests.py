"""Digests: equal content gives equal names, on any machine."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mixlab import MixlabError

_LENGTH = 16


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # 1 and 1.0 mean the same setting, so they must give the same digest.
        return int(value) if value.is_integer() else value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json"))
    raise MixlabError(
        f"cannot digest a {type(value).__name__}: its content has no fixed order or text. "
        "Expected numbers, text, lists, mappings, paths or settings."
    )


def canonical_json(value: Any) -> str:
    """One text for one content: sorted keys, no spaces, whole floats as integers.

    Raises:
        MixlabError: for NaN, infinities, sets and other values without a canonical text.
    """
    try:
        return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, OverflowError) as error:
        raise MixlabError(f"cannot digest: {error}") from error


def digest(value: Any) -> str:
    """16 hex characters of SHA-256 over the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:_LENGTH]


def digest_file(path: str | os.PathLike[str]) -> str:
    """16 hex characters of SHA-256 over a file's bytes."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()[:_LENGTH]


def digest_arrays(arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """16 hex characters over names, dtypes, shapes and bytes; the order of arrays is ignored."""
    parts = []
    for name, array in arrays:
        one = hashlib.sha256(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        one.update(np.ascontiguousarray(array).data)
        parts.append(one.digest())
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:_LENGTH]
