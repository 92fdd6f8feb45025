"""Whether two tensors hold the same bytes: small ones are read whole, large ones in samples."""

from __future__ import annotations

from mixlab.checkpoint import TensorSource

WHOLE = 1_000_000
_WINDOW, _WINDOWS = 1 << 16, 16


def same_bytes(one: TensorSource, name: str, other: TensorSource, other_name: str) -> bool:
    """Compare dtype, shape and bytes; of more than 1 MB, 16 windows of 64 KiB spread evenly.

    A False is certain; a True of a large tensor is evidence enough for planning, where weights
    that were trained apart differ in every window.

    Raises:
        MixlabError: a file cannot be read.
    """
    a, b = one.entries[name], other.entries[other_name]
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    size = a.stop - a.start
    if size <= WHOLE:
        return _read(one, name, 0, size) == _read(other, other_name, 0, size)
    for index in range(_WINDOWS):
        start = (size - _WINDOW) * index // (_WINDOWS - 1)
        if _read(one, name, start, _WINDOW) != _read(other, other_name, start, _WINDOW):
            return False
    return True


def _read(source: TensorSource, name: str, start: int, size: int) -> bytearray:
    buffer = bytearray(size)
    if size:
        source.read_into(name, memoryview(buffer), start)
    return buffer
