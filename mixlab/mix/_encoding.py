"""Rows as token ids, encoded once per (row, format) and kept in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mixlab.spec import MixlabError

from ._source import Source

Kept = dict[tuple[int, str], tuple[np.ndarray, np.ndarray]]
_ROWS = 400_000
_PAIRS = 64


class EncodedExample(Protocol):
    """What an encoder makes of a row: ids int32 [T], supervised bool [T], pixels or None."""

    @property
    def input_ids(self) -> np.ndarray: ...
    @property
    def supervised(self) -> np.ndarray: ...
    @property
    def pixel_values(self) -> np.ndarray | None: ...


class Encoder(Protocol):
    """The part of `mixlab.models.PromptEncoder` that a mix needs.

    `digest` covers all that decides ids and pixels.
    """

    @property
    def pad_id(self) -> int: ...

    @property
    def digest(self) -> str: ...

    def encode_example(
        self, messages: Sequence[dict[str, Any]], image: Any = None
    ) -> EncodedExample: ...


class TooLong(MixlabError):
    """A row longer than the model's context."""


class EncodedRows:
    """Ids and supervision of a source's rows under one encoder; pixels are never kept here.

    The encoder keeps decoded images itself, so rows that share an image share its pixels.
    """

    def __init__(self, source: Source, encoder: Encoder, kept: Kept) -> None:
        self._source = source
        self._encoder = encoder
        self._kept = kept

    def ids(self, index: int, fmt: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids int32 [T] and supervised bool [T].

        Raises:
            TooLong: the row exceeds the context.
            MixlabError: it has no supervised token, or can't be encoded; names source and row.
        """
        kept = self._kept.get((index, fmt))
        return self._encode(index, fmt)[:2] if kept is None else kept

    def lengths(self, index: int, fmt: str) -> tuple[int, int]:
        """(supervised tokens, all tokens) of the row."""
        ids, supervised = self.ids(index, fmt)
        return int(np.count_nonzero(supervised)), len(ids)

    def example(self, index: int, fmt: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Ids int32 [T], supervised bool [T], pixels float32 [C, H, W] or None."""
        image = self._source.image(index)
        kept = self._kept.get((index, fmt))
        reader = getattr(self._encoder, "images", None)
        if kept is None or (image is not None and reader is None):
            return self._encode(index, fmt)
        return (*kept, None if image is None else self._pixels(reader, index, image))

    def _pixels(self, reader: Any, index: int, image: Path) -> np.ndarray:
        try:
            return reader.read(image)
        except MixlabError as error:
            raise MixlabError(f"{self._source.where(index)}: {error}") from error

    def _encode(self, index: int, fmt: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        source = self._source
        try:
            made = self._encoder.encode_example(
                source.messages(index, fmt), image=source.image(index)
            )
        except MixlabError as error:
            # The encoder's message is the only mark of this case.
            kind = TooLong if "more than the context" in str(error) else MixlabError
            raise kind(f"{source.where(index)}, as {fmt}: {error}") from error
        ids = np.asarray(made.input_ids, dtype=np.int32)
        supervised = np.asarray(made.supervised, dtype=bool)
        if not supervised.any():
            raise MixlabError(
                f"{source.where(index)}, as {fmt}: the template leaves no supervised token; check "
                "the chat template and the answer"
            )
        if len(self._kept) < _ROWS:
            self._kept[index, fmt] = (ids, supervised)
        return ids, supervised, made.pixel_values


_IDS: OrderedDict[tuple[str, str], Kept] = OrderedDict()


def encoded_rows(source: Source, encoder: Encoder) -> EncodedRows:
    """A source's rows under an encoder; ids are shared by all encoders of one digest.

    So the trials of a process, each with a model of its own, encode every row once.
    """
    kept = _IDS.setdefault((source.digest, encoder.digest), {})
    _IDS.move_to_end((source.digest, encoder.digest))
    while len(_IDS) > _PAIRS:
        _IDS.popitem(last=False)
    return EncodedRows(source, encoder, kept)
