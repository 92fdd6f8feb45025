"""Answers kept by what decided them: weights, generation settings and what the model read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from mixlab.store import digest, write_bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """What a model answered: generated ids (stop token excluded), or values per choice.

    `ended` is False where the token limit cut the generation. `values` are summed
    log-likelihoods of the choices, in nats.
    """

    ids: tuple[int, ...] = ()
    ended: bool = True
    values: tuple[float, ...] = ()


class ResponseCache:
    """Answers under `folder`/<weight digest>/, one immutable Parquet file per flush.

    A file is written aside and renamed, and named by its content, so that two processes may
    write for the same weights at once: each adds whole files, none changes one. Paths and names
    of models play no part, hence a checkpoint that is written over another never gets its
    answers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._known: dict[str, dict[str, Answer]] = {}
        self._read: dict[str, set[str]] = {}

    def lookup(self, weights: str) -> Mapping[str, Answer]:
        """Key to answer for one weight digest; files that other writers added are read too."""
        known = self._known.setdefault(weights, {})
        read = self._read.setdefault(weights, set())
        folder = self.folder / weights
        if folder.is_dir():
            for path in sorted(folder.glob("*.parquet")):
                if path.name not in read:
                    read.add(path.name)
                    known.update(_read(path))
        return known

    def add(self, weights: str, answers: Mapping[str, Answer]) -> None:
        """Keep new answers on disk; what is there already is not written again."""
        known = self._known.setdefault(weights, {})
        new = {key: answer for key, answer in answers.items() if key not in known}
        if not new:
            return
        name = f"{digest(sorted(new))}.parquet"
        write_bytes(self.folder / weights / name, _bytes(new))
        self._read.setdefault(weights, set()).add(name)
        known.update(new)

    def forget(self) -> None:
        """Drop what is held in memory; the files stay."""
        self._known.clear()
        self._read.clear()


def _bytes(answers: Mapping[str, Answer]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "key": pa.array(list(answers), pa.string()),
            "ids": pa.array([a.ids for a in answers.values()], pa.list_(pa.int32())),
            "ended": pa.array([a.ended for a in answers.values()], pa.bool_()),
            "values": pa.array([a.values for a in answers.values()], pa.list_(pa.float64())),
        }
    )
    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _read(path: Path) -> dict[str, Answer]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = pq.read_table(path).to_pydict()
    except (pa.ArrowInvalid, OSError) as error:
        # Only a failing disk leaves such a file; its answers are generated again.
        log.warning("response cache: %s cannot be read and is ignored (%s)", path, error)
        return {}
    return {
        key: Answer(tuple(ids), ended, tuple(values))
        for key, ids, ended, values in zip(
            columns["key"], columns["ids"], columns["ended"], columns["values"], strict=True
        )
    }
