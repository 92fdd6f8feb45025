"""Row maps against a plain loop, and a remapped source read row by row or whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.checkpoint import TensorEntry
from mixlab.merge.planning._remapped import Remap, RemappedSource
from mixlab.merge.planning._vocabulary import GivenRow, map_rows
from mixlab.spec import MixlabError


@dataclass
class Table:
    """One table in memory as a source; counts the bytes that are read of it."""

    table: torch.Tensor
    key: str = "m"
    name: str = "t"
    count: int = 0
    entries: dict[str, TensorEntry] = field(init=False)

    def __post_init__(self) -> None:
        size = self.table.numel() * self.table.element_size()
        spelling = {torch.float32: "F32", torch.bfloat16: "BF16"}[self.table.dtype]
        entry = TensorEntry(self.name, spelling, tuple(self.table.shape), 0, size)
        self.entries = {self.name: entry}

    def streams(self, name: str) -> bool:
        return True

    def read(self, name: str) -> torch.Tensor:
        self.count += self.table.numel() * self.table.element_size()
        return self.table.clone()

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        data = self.table.reshape(-1).view(torch.uint8).numpy().data
        buffer[:] = data[start : start + len(buffer)]
        self.count += len(buffer)


def by_hand(
    tables: Sequence[torch.Tensor],
    rows: Sequence[Sequence[int]],
    base: int | None,
    asked: Mapping[int, GivenRow],
    padding: int,
) -> list[torch.Tensor]:
    """The rule, token by token."""
    made = []
    for mine, own in zip(tables, rows, strict=True):
        out = []
        for token in range(len(own)):
            having = [m for m in range(len(tables)) if rows[m][token] >= 0]
            wanted = asked.get(token)
            if own[token] >= 0 and not (wanted and wanted.force):
                out.append(mine[own[token]].float())
            elif wanted is not None and not wanted.zero:
                assert wanted.model is not None
                row = rows[wanted.model][token] if wanted.row is None else wanted.row
                out.append(tables[wanted.model][row].float())
            elif wanted is not None or not having:
                out.append(torch.zeros(mine.shape[1]))
            elif len(having) > 1 and base in having:
                assert base is not None
                out.append(tables[base][rows[base][token]].float())
            else:
                out.append(sum(tables[m][rows[m][token]].float() for m in having) / len(having))
        out += [torch.stack(out).mean(0)] * padding
        made.append(torch.stack(out))
    return made


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], int | None, dict[int, GivenRow], int]:
    models, tokens, size = draw(st.integers(1, 4)), draw(st.integers(1, 12)), 9
    row = st.integers(-1, size - 1)
    rows = [draw(st.lists(row, min_size=tokens, max_size=tokens)) for _ in range(models)]
    base = draw(st.none() | st.integers(0, models - 1))
    zero = st.builds(GivenRow, zero=st.just(True), force=st.booleans())
    of_row = st.builds(
        GivenRow,
        model=st.integers(0, models - 1),
        row=st.integers(0, size - 1),
        force=st.booleans(),
    )
    asked = draw(st.dictionaries(st.integers(0, tokens - 1), zero | of_row, max_size=3))
    return rows, base, asked, draw(st.integers(0, 3))


@settings(max_examples=150, deadline=None)
@given(case=cases(), seed=st.integers(0, 5))
def test_tables_are_those_of_the_rule_token_by_token(
    case: tuple[list[list[int]], int | None, dict[int, GivenRow], int], seed: int
) -> None:
    rows, base, asked, padding = case
    torch.manual_seed(seed)
    tables = [torch.randn(9, 3) for _ in rows]
    maps = map_rows([torch.tensor(r) for r in rows], base, asked, padding)
    sources = tuple((Table(table), "t") for table in tables)
    expected = by_hand(tables, rows, base, asked, padding)
    for index, one in enumerate(maps):
        remap = Remap(one, index, sources, tuple(torch.tensor(r) for r in rows))
        source = RemappedSource(sources[index][0], {"t": remap})
        got = source.read("t")
        assert tuple(got.shape) == source.entries["t"].shape
        torch.testing.assert_close(got, expected[index], rtol=1e-6, atol=1e-6)
        part = bytearray(8)
        source.read_into("t", memoryview(part), 4)
        assert bytes(part) == got.reshape(-1).view(torch.uint8).numpy().tobytes()[4:12]


def test_a_mean_is_kept_in_float32_and_own_rows_in_their_own_dtype() -> None:
    tables = [torch.randn(4, 3).bfloat16() for _ in range(3)]
    rows = [torch.tensor(r) for r in ([0, 1], [2, 3], [1, -1])]
    sources = tuple((Table(table), "t") for table in tables)
    maps = map_rows(rows, None, {})
    dtypes = [Remap(one, i, sources, tuple(rows)).dtype for i, one in enumerate(maps)]
    assert dtypes == [torch.bfloat16, torch.bfloat16, torch.float32]
    got = RemappedSource(sources[2][0], {"t": Remap(maps[2], 2, sources, tuple(rows))}).read("t")
    assert torch.equal(got[1], (tables[0][1].float() + tables[1][3].float()) / 2)


def test_few_lent_rows_are_read_without_the_rest_of_the_table() -> None:
    mine, other = Table(torch.zeros(100, 8)), Table(torch.ones(100, 8))
    rows = [torch.arange(100), torch.arange(100)]
    rows[0][7] = -1
    sources = ((mine, "t"), (other, "t"))
    maps = map_rows(rows, 1, {})
    got = RemappedSource(mine, {"t": Remap(maps[0], 0, sources, tuple(rows))}).read("t")
    assert got.sum() == got[7].sum() == 8
    assert other.count == 8 * 4


def test_a_row_that_no_one_can_give_is_refused() -> None:
    rows = [torch.tensor([0, -1]), torch.tensor([0, 1])]
    with pytest.raises(MixlabError, match=r"token 1.*not given"):
        map_rows(rows, None, {1: GivenRow()})
    with pytest.raises(MixlabError, match="lacks it"):
        map_rows(rows, None, {1: GivenRow(model=0)})
    assert map_rows(rows, None, {0: GivenRow()})[0].own.tolist() == [0, -1]
