"""A model whose vocabulary tables are read in another order of tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from mixlab.checkpoint import TensorEntry, TensorSource, item_size, spell, torch_dtype
from mixlab.merge.planning._vocabulary import RowMap

# Below this share of a table's rows they are read one by one, else the whole table is read.
_FEW = 0.25


@dataclass(frozen=True)
class Remap:
    """One table of a `RemappedSource`.

    Args:
        map: of this model.
        own: this model, by its place among `tables`.
        tables: (source, name) of the same table in every model, in the order of `map_rows`.
        rows: as given to `map_rows`, for the means.
    """

    map: RowMap
    own: int
    tables: tuple[tuple[TensorSource, str], ...]
    rows: tuple[torch.Tensor, ...]

    @property
    def name(self) -> str:
        """Of the table in this model."""
        return self.tables[self.own][1]

    @property
    def dtype(self) -> torch.dtype:
        """Wide enough for what is lent; at least float32 where a mean is taken, which is then
        rounded once, with the merge."""
        everything = bool(len(self.map.averaged))
        used = {self.own, *(model for model, _, _ in self.map.lent)}
        dtype = torch.float32 if everything or self.map.padding else None
        for index, (source, name) in enumerate(self.tables):
            if everything or index in used:
                own = torch_dtype(source.entries[name].dtype)
                dtype = own if dtype is None else torch.promote_types(dtype, own)
        assert dtype is not None
        return dtype

    def entry(self, name: str) -> TensorEntry:
        """Header of the remapped table under `name`; offsets count from its own beginning."""
        source, own = self.tables[self.own]
        shape = (self.map.size, *source.entries[own].shape[1:])
        spelling = spell(self.dtype)
        return TensorEntry(name, spelling, shape, 0, math.prod(shape) * item_size(spelling))


@dataclass
class RemappedSource:
    """TensorSource over `base` whose vocabulary tables are in another order of tokens.

    Tables are made whole when read: the own rows by one `index_select`, then those of each lending
    model in turn, so that at most one further table is in memory.

    Args:
        base: the model as it is.
        remaps: name -> how that table is made. A name that the base lacks is added (the head of a
            model whose head is tied, as an input of its own).
    """

    base: TensorSource
    remaps: Mapping[str, Remap]
    entries: Mapping[str, TensorEntry] = field(init=False)

    def __post_init__(self) -> None:
        mapped = {name: remap.entry(name) for name, remap in self.remaps.items()}
        self.entries = {**self.base.entries, **mapped}

    @property
    def key(self) -> str:
        """The base's."""
        return self.base.key

    def streams(self, name: str) -> bool:
        """Only what is not remapped."""
        return name not in self.remaps and self.base.streams(name)

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        """Fill `buffer` with the bytes of the tensor, remapped where it is, from `start` on."""
        if name not in self.remaps:
            self.base.read_into(name, buffer, start)
            return
        data = self.read(name).reshape(-1).view(torch.uint8).numpy().data
        buffer[:] = data[start : start + len(buffer)]

    def read(self, name: str) -> torch.Tensor:
        """The whole tensor; a remapped table in `Remap.dtype`."""
        remap = self.remaps.get(name)
        if remap is None:
            return self.base.read(name)
        plan, tokens = remap.map, remap.map.own.numel()
        out = torch.zeros(self.entries[name].shape, dtype=remap.dtype)
        kept = (plan.own >= 0).nonzero()[:, 0]
        out[kept] = _rows(self.base, remap.name, plan.own[kept]).to(out.dtype)
        for model, to, rows in plan.lent:
            out[to] = _rows(*remap.tables[model], rows).to(out.dtype)
        if len(plan.averaged):
            count = torch.zeros(len(plan.averaged), dtype=out.dtype)
            for (source, table), rows in zip(remap.tables, remap.rows, strict=True):
                has = (rows[plan.averaged] >= 0).nonzero()[:, 0]
                found = _rows(source, table, rows[plan.averaged[has]])
                out.index_add_(0, plan.averaged[has], found.to(out.dtype))
                count[has] += 1
            out[plan.averaged] /= count.reshape(-1, *[1] * (out.ndim - 1))
        if plan.padding:
            out[tokens:] = out[:tokens].mean(0)
        return out


def _rows(source: TensorSource, name: str, rows: torch.Tensor) -> torch.Tensor:
    """Rows of a table, in its stored dtype, in the order of `rows`."""
    entry = source.entries[name]
    if not source.streams(name) or len(rows) > _FEW * entry.shape[0]:
        return source.read(name).index_select(0, rows)
    out = torch.empty((len(rows), *entry.shape[1:]), dtype=torch_dtype(entry.dtype))
    size = (entry.stop - entry.start) // max(entry.shape[0], 1)
    data = out.reshape(-1).view(torch.uint8).numpy().data if out.numel() else None
    for at, row in enumerate(rows.tolist()):
        if data is not None:
            source.read_into(name, data[at * size : (at + 1) * size], row * size)
    return out
