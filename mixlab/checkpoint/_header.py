"""The header of a safetensors file, read without trusting it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

# Width in bits, since some types are narrower than a byte (safetensors format, version 0.7).
_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
# The safetensors library refuses longer headers, so that a lying length cannot exhaust memory.
_HEADER_LIMIT = 100_000_000
_INDEX = "model.safetensors.index.json"
_MEND = "copy or download the file again"


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor stands: dtype as safetensors spells it, shape, and bytes of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(path: str | Path) -> dict[str, TensorEntry]:
    """Read and check the header of a safetensors file.

    Every offset is held against the file's size and every tensor's length against its shape and
    dtype; tensors must cover the data exactly, without gap or overlap
    (https://github.com/huggingface/safetensors, "Format").

    Returns:
        name -> TensorEntry, with `start` and `stop` counted from the beginning of the file.

    Raises:
        MixlabError: the file is missing, truncated, or its header does not describe it.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(size - 8, _HEADER_LIMIT):
                raise MixlabError(
                    f"{path}: truncated or not a safetensors file: the header claims {length} "
                    f"bytes, the file holds {size}; {_MEND}"
                )
            text = file.read(length)
    except OSError as error:
        raise MixlabError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        header = json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, path))
        entries = [
            _entry(name, about, 8 + length)
            for name, about in header.items()
            if name != "__metadata__"
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, MixlabError):
            raise
        raise MixlabError(f"{path}: the header is not valid: {error}; {_MEND}") from error
    _check_layout(entries, 8 + length, size, path)
    return {entry.name: entry for entry in entries}


def weight_files(folder: str | Path) -> list[Path]:
    """The safetensors files of a Hugging Face folder, in name order.

    Raises:
        MixlabError: there are none (with the way to convert pickled weights), or the index names a
            shard that is missing or lies outside the folder.
    """
    folder = Path(folder)
    index = folder / _INDEX
    single = folder / "model.safetensors"
    if index.is_file():
        try:
            named = set(json.loads(index.read_text())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MixlabError(f"{index}: not a valid index: {error}; {_MEND}") from error
        for name in sorted(named):
            if not isinstance(name, str) or Path(name).name != name or name in {"", "..", "."}:
                raise MixlabError(f"{index}: {name!r} is not a bare file name; refused")
            if not (folder / name).is_file():
                raise MixlabError(f"{index} names {name}, which is missing; {_MEND}")
        return [folder / name for name in sorted(named)]
    if single.is_file():
        return [single]
    if any(folder.glob("*.bin")):
        raise MixlabError(
            f"{folder}: only pickled weights (*.bin), which can run code when read; load it once "
            "with transformers and call save_pretrained() to convert it to safetensors"
        )
    raise MixlabError(f"{folder}: no model.safetensors and no {_INDEX}; is it a model folder?")


def _unique(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MixlabError(f"{path}: the header names a tensor twice; {_MEND}")
    return found


def _entry(name: str, about: dict[str, Any], base: int) -> TensorEntry:
    start, stop = about["data_offsets"]
    shape = tuple(about["shape"])
    numbers = (start, stop, *shape)
    if any(type(n) is not int or n < 0 for n in numbers) or stop < start:
        raise ValueError(f"{name}: offsets or shape are not counts")
    if about["dtype"] not in _BITS:
        raise ValueError(f"{name}: unknown dtype {about['dtype']!r}")
    if math.prod(shape) * _BITS[about["dtype"]] != (stop - start) * 8:
        raise ValueError(f"{name}: {stop - start} bytes cannot hold {about['dtype']}{list(shape)}")
    return TensorEntry(name, about["dtype"], shape, base + start, base + stop)


def _check_layout(entries: list[TensorEntry], base: int, size: int, path: Path) -> None:
    at = base
    for entry in sorted(entries, key=lambda e: (e.start, e.stop)):
        if entry.start != at:
            raise MixlabError(f"{path}: gap or overlap before tensor {entry.name}; {_MEND}")
        at = entry.stop
    if at != size:
        raise MixlabError(
            f"{path}: the header describes {at} bytes, the file holds {size} (truncated?); {_MEND}"
        )
