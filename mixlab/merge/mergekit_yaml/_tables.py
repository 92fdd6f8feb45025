"""Vocabulary tables as inputs, in the order of the output's tokens."""

from __future__ import annotations

import torch

from mixlab.checkpoint import tensor_place
from mixlab.merge._plan import Input
from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._models import Opened
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._tokenizer import BuiltTokenizer
from mixlab.merge.planning._remapped import Remap
from mixlab.merge.planning._vocabulary import RowMap, map_rows
from mixlab.spec import MixlabError


class Tables:
    """Makes inputs of vocabulary tables and remembers how each is remapped.

    Attributes:
        remapping: whether the output has a tokenizer of its own.
        remaps: model -> name -> how that table is made; what stays as it is has none.
    """

    def __init__(self, document: Document, tokenizer: BuiltTokenizer | None) -> None:
        self.remaps: dict[int, dict[str, Remap]] = {}
        self.remapping = tokenizer is not None
        self._document, self._tokenizer = document, tokenizer
        self._maps: dict[tuple[tuple[Reference, ...], Reference | None], list[RowMap]] = {}

    def inputs(
        self, base: Reference | None, name: str, picks: list[tuple[Opened, str]]
    ) -> dict[Reference, Input]:
        """The inputs of one table of the output.

        Args:
            base: whose rows count for tokens that several, but not all, of the models have.
            name: of the output tensor. The table that stands in for a tied head gets it as its own
                name, since the embeddings themselves may be remapped for other models.
            picks: models with the names of their tables.

        Raises:
            MixlabError: `tokens:` asks for what there is not.
        """
        assert self._tokenizer is not None
        group = tuple(model.reference for model, _ in picks)
        rows = tuple(self._tokenizer.rows[reference] for reference in group)
        maps = self._maps.get((group, base))
        if maps is None:
            maps = self._maps[group, base] = self._map(group, base, rows)
        tables = tuple((model.source, own) for model, own in picks)
        inputs = {}
        for index, (model, own) in enumerate(picks):
            entry = model.source.entries[own]
            if not _is_identity(maps[index], entry.shape[0]):
                stands_in = own == model.table and tensor_place(name).module == "lm_head"
                known = name if stands_in else own
                remap = Remap(maps[index], index, tables, rows)
                self.remaps.setdefault(model.index, {})[known] = remap
                entry = remap.entry(known)
            inputs[model.reference] = Input(model.index, entry)
        return inputs

    def _map(
        self, group: tuple[Reference, ...], base: Reference | None, rows: tuple[torch.Tensor, ...]
    ) -> list[RowMap]:
        assert self._tokenizer is not None
        try:
            return map_rows(
                rows,
                group.index(base) if base in group else None,
                self._tokenizer.given(self._document.settings, group),
                self._tokenizer.padding,
            )
        except MixlabError as error:
            place = "tokenizer" if self._document.settings.tokenizer else "tokenizer_source"
            raise self._document.located.error((place,), str(error)) from None


def _is_identity(one: RowMap, rows: int) -> bool:
    return one.size == rows and not one.padding and torch.equal(one.own, torch.arange(rows))
