"""A digest of weights that can be taken while they stream past, in any order and by any threads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from mixlab.checkpoint._source import TensorSource

# Part of the definition: another size gives other digests.
SEGMENT = 8 << 20


class SegmentDigest:
    """XXH3-128 of each `SEGMENT` bytes of one tensor (https://xxhash.com).

    Fast enough to run beside a merge; it finds accidents, not forgeries. Parts may come in any
    order and from several threads, save that the parts of one segment come in order, one after
    the other: let one thread do all of a segment.

    Args:
        size: of the tensor, in bytes.
    """

    def __init__(self, size: int) -> None:
        import xxhash

        self._size = size
        count = -(-size // SEGMENT)
        self._hashes = [xxhash.xxh3_128() for _ in range(count)]
        self._done = [0] * count

    def update(self, start: int, buffer: memoryview) -> None:
        """Take in the tensor's bytes from byte `start` on.

        Raises:
            MixlabError: the part does not continue its segment, or lies outside the tensor.
        """
        view = buffer.cast("B") if buffer.nbytes else buffer
        if start < 0 or start + view.nbytes > self._size:
            raise MixlabError(f"bytes {start} to {start + view.nbytes} of a tensor of {self._size}")
        at = 0
        while at < view.nbytes:
            segment, inner = divmod(start + at, SEGMENT)
            if self._done[segment] != inner:
                raise MixlabError(
                    f"segment {segment} continues at byte {self._done[segment]}, got byte {inner}"
                )
            part = view[at : at + SEGMENT - inner]
            self._hashes[segment].update(part)
            self._done[segment] += part.nbytes
            at += part.nbytes

    def finish(self) -> list[str]:
        """One hex digest a segment; an empty tensor has none.

        Raises:
            MixlabError: bytes are missing.
        """
        if sum(self._done) != self._size:
            raise MixlabError(f"{sum(self._done)} of {self._size} bytes of a tensor were digested")
        return [segment.hexdigest() for segment in self._hashes]


def combine_digest(parts: Mapping[str, tuple[str, Sequence[int], Sequence[str]]]) -> str:
    """32 hex digits for a whole checkpoint, from name -> (dtype, shape, segment digests).

    sha256 over one JSON line a tensor, sorted: neither the order of tensors nor their files matter.
    """
    lines = sorted(
        json.dumps([name, dtype, list(shape), list(segments)], separators=(",", ":"))
        for name, (dtype, shape, segments) in parts.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def digest_source(source: TensorSource) -> str:
    """`combine_digest` of all tensors of a source, read in one pass through one buffer.

    Raises:
        MixlabError: a tensor cannot be read.
    """
    import torch

    buffer = memoryview(bytearray(SEGMENT))
    parts = {}
    for name, entry in source.entries.items():
        if source.streams(name):
            size = entry.stop - entry.start
            digest = SegmentDigest(size)
            for start in range(0, size, SEGMENT):
                part = buffer[: min(SEGMENT, size - start)]
                source.read_into(name, part, start)
                digest.update(start, part)
        else:
            flat = source.read(name).contiguous().reshape(-1).view(torch.uint8)
            digest = SegmentDigest(flat.numel())
            digest.update(0, flat.numpy().data)
        parts[name] = entry.dtype, entry.shape, digest.finish()
    return combine_digest(parts)
