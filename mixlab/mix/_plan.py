"""A plan: the ordered list of what is trained on, with a digest."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlab.formats import FORMATS
from mixlab.spec import MixlabError
from mixlab.store import digest, digest_arrays, write_bytes

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Mapping[str, str] = {
    "source": "<i4",
    "row": "<i8",
    "turn": "<i4",
    "format": "|i1",
    "supervised": "<i4",
    "tokens": "<i4",
}
"""Columns of a plan and their dtypes, the same on every machine."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One entry: index of the source, row index, pass over the source (from 0), format."""

    source: int
    row: int
    turn: int
    format: str


@dataclass(frozen=True)
class Plan:
    """An ordered list of rows cut into steps; batch k is `columns[starts[k]:starts[k + 1]]`.

    Attributes:
        columns: arrays [N]: source (index into `sources`), row, turn (the pass), format (index
            into `FORMATS`), supervised and tokens (counts of the row).
        starts: int64 [steps + 1], where each step begins.
        sources: name, modality, digest and number of rows of each source.
        about: what was asked (the mix, steps, tokens a step, seed, ...) and what was dropped;
            not part of the digest.
        encoder: digest of tokenizer, template and image processor.
    """

    columns: Mapping[str, np.ndarray]
    starts: np.ndarray
    sources: tuple[Mapping[str, Any], ...]
    about: Mapping[str, Any]
    encoder: str

    @property
    def steps(self) -> int:
        return len(self.starts) - 1

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def supervised_tokens(self) -> int:
        """Supervised tokens of all steps together."""
        return int(self.columns["supervised"].sum())

    @cached_property
    def digest(self) -> str:
        """16 hex characters over all that decides what is trained on, in which order."""
        arrays = digest_arrays([*self.columns.items(), ("starts", self.starts)])
        return digest([arrays, list(FORMATS), [dict(s) for s in self.sources], self.encoder])

    def batch(self, k: int) -> list[PlanRow]:
        """The rows of step k, from 0.

        Raises:
            MixlabError: there is no such step.
        """
        if not 0 <= k < self.steps:
            raise MixlabError(f"no step {k}: the plan has {self.steps} steps, from 0")
        return list(self._rows(int(self.starts[k]), int(self.starts[k + 1])))

    def _rows(self, start: int, stop: int) -> Iterator[PlanRow]:
        parts = [self.columns[name][start:stop] for name in ("source", "row", "turn", "format")]
        for source, row, turn, fmt in zip(*(part.tolist() for part in parts), strict=True):
            yield PlanRow(source, row, turn, FORMATS[fmt])

    def modalities(self) -> np.ndarray:
        """Whether each entry is text-only, bool [N]."""
        text = np.array([source["modality"] == "text" for source in self.sources])
        return text[self.columns["source"]]

    def receipt(self, run: str = "") -> tuple[pd.DataFrame, dict[str, Any]]:
        """What was asked and what the plan holds; see `mixlab.mix.receipt`."""
        from ._receipt import receipt

        return receipt(self, run)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the plan as one npz file, whole or not at all."""
        head = {
            "digest": self.digest,
            "formats": list(FORMATS),
            "sources": [dict(source) for source in self.sources],
            "about": dict(self.about),
            "encoder": self.encoder,
        }
        text = np.frombuffer(json.dumps(head, sort_keys=True).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {"head": text, "starts": self.starts, **self.columns}
        np.savez_compressed(buffer, **arrays)
        return write_bytes(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan and check that its digest is the one it was saved with.

        Raises:
            MixlabError: the file is missing, no plan, damaged, or made for other formats.
        """
        try:
            with np.load(path, allow_pickle=False) as saved:
                head = json.loads(saved["head"].tobytes())
                columns = {name: saved[name] for name in COLUMNS}
                plan = cls(
                    columns, saved["starts"], tuple(head["sources"]), head["about"], head["encoder"]
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise MixlabError(f"{os.fspath(path)}: can't be read as a plan ({error})") from error
        if head["formats"] != list(FORMATS) or plan.digest != head["digest"]:
            raise MixlabError(
                f"{os.fspath(path)}: its content has digest {plan.digest}, but it was saved with "
                f"{head['digest']}; the file was changed or comes from another version: plan again"
            )
        return plan
