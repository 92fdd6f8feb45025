"""Which row each model's vocabulary table has for each token of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from mixlab.spec import MixlabError


@dataclass(frozen=True)
class GivenRow:
    """What was asked for one token.

    Args:
        model: index of the model whose row is taken; None with `zero` unset: nothing was said.
        row: in that model's table; None is the row of the same token there.
        zero: a row of zeros.
        force: for every model, also for those that have the token.
    """

    model: int | None = None
    row: int | None = None
    zero: bool = False
    force: bool = False


@dataclass(frozen=True)
class RowMap:
    """How one model's table is made in the new order.

    Args:
        own: int64 [tokens], its own row for each token, -1 where it gets another.
        lent: (model, int64 new rows, int64 rows of that model's table).
        averaged: int64, new rows that are the mean of the models that have the token.
        padding: rows after the last token, each the mean of all rows before.
    """

    own: torch.Tensor
    lent: tuple[tuple[int, torch.Tensor, torch.Tensor], ...]
    averaged: torch.Tensor
    padding: int

    @property
    def size(self) -> int:
        """Rows of the new table."""
        return self.own.numel() + self.padding


def map_rows(
    rows: Sequence[torch.Tensor],
    base: int | None,
    given: Mapping[int, GivenRow],
    padding: int = 0,
) -> list[RowMap]:
    """Decide which row each model's table has for each token (mergekit's `PermutedVocabulary`).

    A model keeps its own row of a token that it has. One that it lacks it gets from the only model
    that has it; else from the base, if that has it; else it gets the mean of those that have it. A
    token that no model has is a row of zeros.

    Args:
        rows: for each model, int64 [tokens]: its row for each token of the output, -1 for none.
        base: index of the base among the models.
        given: token -> what was asked for it instead.
        padding: rows to add after the last token.

    Raises:
        MixlabError: a row was asked for from a model that has none.
    """
    table = torch.stack(list(rows))
    has = table >= 0
    count = has.sum(0)
    donor = torch.where(count == 1, has.int().argmax(0), -1)
    if base is not None:
        donor = torch.where((count > 1) & has[base], base, donor)
    averaged = (count > 1) & (donor < 0)
    row = table.gather(0, donor.clamp(min=0)[None])[0]
    forced = torch.zeros_like(averaged)
    for token, wanted in given.items():
        if not wanted.force and bool(has[:, token].all()):
            continue
        forced[token], averaged[token], donor[token] = wanted.force, False, -1
        if wanted.zero:
            continue
        if wanted.model is None:
            raise MixlabError(f"token {token}: some models lack it, and its source is not given")
        found = int(table[wanted.model, token]) if wanted.row is None else wanted.row
        if found < 0:
            raise MixlabError(f"token {token}: the model that was to give its row lacks it")
        donor[token], row[token] = wanted.model, found
    maps = []
    for mine, present in zip(table, has, strict=True):
        needs = ~present | forced
        lent = []
        for model in range(len(rows)):
            to = (needs & (donor == model)).nonzero()[:, 0]
            if len(to):
                lent.append((model, to, row[to]))
        maps.append(
            RowMap(
                torch.where(needs, -1, mine),
                tuple(lent),
                (needs & averaged).nonzero()[:, 0],
                padding,
            )
        )
    return maps
