"""How the tensors of an output are spread over files, and where each stands in its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixlab.checkpoint._dtypes import BITS, tensor_size
from mixlab.checkpoint._header import TensorEntry
from mixlab.checkpoint._index import SINGLE
from mixlab.spec import MixlabError

_ORDER = {spelling: -rank for rank, spelling in enumerate(BITS)}


@dataclass(frozen=True)
class OutTensor:
    """A tensor to write: its dtype as safetensors spells it, and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return tensor_size(self.dtype, self.shape)


@dataclass(frozen=True)
class Shard:
    """A file to write and the tensors in it."""

    file_name: str
    tensors: tuple[OutTensor, ...]

    @property
    def size(self) -> int:
        """Bytes of its tensors, the header not counted."""
        return sum(tensor.size for tensor in self.tensors)


def plan_shards(
    tensors: Sequence[OutTensor],
    *,
    max_bytes: int | None = None,
    like: Mapping[str, str] | None = None,
) -> tuple[Shard, ...]:
    """Spread tensors over files, named `model-00001-of-00002.safetensors` or `model.safetensors`.

    Args:
        tensors: of the whole output, in order.
        max_bytes: fill a file up to so many bytes of tensors, in order; a larger tensor has a file
            to itself. It decides where `like` is given too.
        like: tensor -> file name of a model whose files to follow. A tensor that it does not name
            goes where its predecessor went.

    Raises:
        MixlabError: a name stands twice, or `max_bytes` is not positive.
    """
    names = [tensor.name for tensor in tensors]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise MixlabError(f"tensor {twice} would be written twice")
    if max_bytes is not None:
        if max_bytes < 1:
            raise MixlabError(f"shards of {max_bytes} bytes; expected a positive size")
        groups = _fill(tensors, max_bytes)
    else:
        groups = _follow(tensors, like or {})
    count = len(groups)
    if count == 1:
        return (Shard(SINGLE, tuple(groups[0])),)
    return tuple(
        Shard(f"model-{place:05}-of-{count:05}.safetensors", tuple(group))
        for place, group in enumerate(groups, 1)
    )


def _fill(tensors: Sequence[OutTensor], limit: int) -> list[list[OutTensor]]:
    groups: list[list[OutTensor]] = [[]]
    room = limit
    for tensor in tensors:
        if groups[-1] and tensor.size > room:
            groups.append([])
            room = limit
        groups[-1].append(tensor)
        room -= tensor.size
    return groups


def _follow(tensors: Sequence[OutTensor], like: Mapping[str, str]) -> list[list[OutTensor]]:
    file = next((like[tensor.name] for tensor in tensors if tensor.name in like), "")
    groups: dict[str, list[OutTensor]] = {}
    for tensor in tensors:
        file = like.get(tensor.name, file)
        groups.setdefault(file, []).append(tensor)
    return [groups[file] for file in sorted(groups)] or [[]]


def lay_out(
    tensors: Sequence[OutTensor], metadata: Mapping[str, str]
) -> tuple[bytes, dict[str, TensorEntry]]:
    """The head of a file (length and header) and where each tensor stands behind it.

    As the safetensors library writes it, byte for byte: wider dtypes first, so that every value
    is aligned, then by name; the header padded with spaces to a multiple of 8 bytes.
    """
    ordered = sorted(tensors, key=lambda tensor: (_ORDER[tensor.dtype], tensor.name.encode()))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for tensor in ordered:
        offsets = [at, at + tensor.size]
        header[tensor.name] = {
            "dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets,
        }  # fmt: skip
        at = offsets[1]
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    base = 8 + len(text)
    entries = {}
    at = base
    for tensor in ordered:
        stop = at + tensor.size
        entries[tensor.name] = TensorEntry(tensor.name, tensor.dtype, tensor.shape, at, stop)
        at = stop
    return len(text).to_bytes(8, "little") + text, entries
