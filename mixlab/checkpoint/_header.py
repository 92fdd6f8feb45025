"""The header of a safetensors file, read without trusting it."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.checkpoint._dtypes import BITS
from mixlab.spec import MixlabError

# The safetensors library refuses longer headers, so that a lying length cannot exhaust memory.
_HEADER_LIMIT = 100_000_000
# Ten times the largest model's; more would cost memory out of proportion to the file.
_TENSOR_LIMIT = 1_000_000
_DIMENSION_LIMIT = 64
_SIZE_LIMIT = 2**63 - 1
_MEND = "copy or download the file again"

# The header is one object of flat objects. It is taken apart member by member and never parsed as
# a whole, since general JSON (a hundred million brackets) may need 30 times its size in memory.
_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NAME = re.compile(rb"[ \t\r\n]*(" + _STRING + rb")[ \t\r\n]*:[ \t\r\n]*", re.DOTALL)
_ABOUT = re.compile(rb"\{[^{}]{0,4000}\}")
_METADATA = re.compile(
    rb"\{[ \t\r\n]*+(?:" + _STRING + rb"[ \t\r\n]*+:[ \t\r\n]*+" + _STRING
    + rb"[ \t\r\n]*+(?:,[ \t\r\n]*+(?=\")|(?=\})))*+\}", re.DOTALL,
)  # fmt: skip
_AFTER = re.compile(rb"[ \t\r\n]*([,}])")


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
        name -> TensorEntry, with `start` and `stop` counted from the beginning of the file, in
        the order of the bytes.

    Raises:
        MixlabError: the file is missing, truncated, or its header does not describe it.
    """
    descriptor = open_file(Path(path))
    try:
        return read_open_header(descriptor, Path(path))
    finally:
        os.close(descriptor)


def open_file(path: Path) -> int:
    """A descriptor to read a regular file.

    Raises:
        MixlabError: the file is missing, refuses reading, or is a folder, pipe or device.
    """
    try:
        # A pipe would block until somebody writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MixlabError(f"{path}: cannot be read: {reason}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MixlabError(f"{path}: cannot be read: it is no regular file; {_MEND}")
    return descriptor


def read_open_header(descriptor: int, path: Path) -> dict[str, TensorEntry]:
    """`read_header` of an open file; `path` is for the message."""
    size = os.fstat(descriptor).st_size
    try:
        head = os.pread(descriptor, 8, 0)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > min(size - 8, _HEADER_LIMIT):
            raise MixlabError(
                f"{path}: truncated or not a safetensors file: the header claims {length} bytes, "
                f"the file holds {size}; {_MEND}"
            )
        text = os.pread(descriptor, length, 8)
    except OSError as error:
        raise MixlabError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        entries = _entries(text, 8 + length, path)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, MixlabError):
            raise
        raise MixlabError(f"{path}: the header is not valid: {error}; {_MEND}") from error
    entries.sort(key=lambda entry: (entry.start, entry.stop))
    _check_layout(entries, 8 + length, size, path)
    return {entry.name: entry for entry in entries}


def _entries(text: bytes, base: int, path: Path) -> list[TensorEntry]:
    if not text.startswith(b"{"):
        raise ValueError(f"it should begin with an object, found {text[:20]!r}")
    found: list[TensorEntry] = []
    names: set[str] = set()
    at = 1
    more = text[1:].lstrip()[:1] != b"}"
    while more:
        key = _NAME.match(text, at)
        if key is None:
            raise ValueError(f"expected the name of a tensor at byte {at}")
        name = json.loads(key[1].decode())
        if not name.isprintable():
            raise ValueError(f"a tensor name with characters that do not print: {name!a:.100}")
        if name in names:
            raise MixlabError(f"{path}: the header names a tensor twice: {name!r}; {_MEND}")
        if len(names) == _TENSOR_LIMIT:
            raise ValueError(f"more than {_TENSOR_LIMIT} tensors")
        names.add(name)
        metadata = name == "__metadata__"
        about = (_METADATA if metadata else _ABOUT).match(text, key.end())
        if about is None:
            expected = "texts by name" if metadata else "dtype, shape and data_offsets"
            raise ValueError(f"{name}: expected an object of {expected}")
        if metadata:
            about[0].decode()
        else:
            found.append(_entry(name, _object(about[0]), base))
        after = _AFTER.match(text, about.end())
        if after is None:
            raise ValueError(f"{name}: expected a comma or the end of the header after it")
        at, more = after.end(), after[1] == b","
    if not found and not names:
        at = text.index(b"}") + 1
    if text[at:].strip(b" \t\r\n"):
        raise ValueError(f"text after its end, at byte {at}")
    return found


def _object(text: bytes) -> dict[str, Any]:
    return json.loads(text.decode(), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a tensor has a field twice")
    return found


def _entry(name: str, about: dict[str, Any], base: int) -> TensorEntry:
    if about.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name}: expected dtype, shape and data_offsets, found {sorted(about)}")
    dtype, shape, offsets = about["dtype"], about["shape"], about["data_offsets"]
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise ValueError(f"{name}: expected a list as shape and two offsets")
    start, stop = offsets
    if any(type(n) is not int or not 0 <= n <= _SIZE_LIMIT for n in (start, stop, *shape)):
        raise ValueError(f"{name}: offsets or shape are not counts")
    if stop < start or len(shape) > _DIMENSION_LIMIT:
        raise ValueError(f"{name}: offsets {offsets}, {len(shape)} dimensions")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError(f"{name}: unknown dtype {dtype!r:.40}")
    if math.prod(shape) * BITS[dtype] != (stop - start) * 8:
        raise ValueError(f"{name}: {stop - start} bytes cannot hold {dtype}{shape}")
    return TensorEntry(name, dtype, tuple(shape), base + start, base + stop)


def _check_layout(entries: list[TensorEntry], base: int, size: int, path: Path) -> None:
    at = base
    for entry in entries:
        if entry.start != at:
            raise MixlabError(
                f"{path}: gap or overlap before tensor {entry.name}: it begins at byte "
                f"{entry.start}, expected {at}; {_MEND}"
            )
        at = entry.stop
    if at != size:
        raise MixlabError(
            f"{path}: the header describes {at} bytes, the file holds {size} "
            f"({'truncated?' if size < at else 'something was added at its end'}); {_MEND}"
        )
