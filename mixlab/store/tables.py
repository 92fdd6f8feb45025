"""The study's tables: tidy Parquet parts, one part a key, append-only, whole or none."""

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from mixlab import MixlabError
from mixlab.store.atomic import atomic_file, clean_temporaries

if TYPE_CHECKING:
    import pandas as pd

_SUFFIX = ".parquet"
_LONGEST = 180


class Tables:
    """Tables of one study: `folder/<table>/<key>.parquet`.

    A part is written once: appending under a key that exists is a no-op, so that a run which is
    repeated after a crash is never counted twice. Parts are read in the order of their keys, so
    that a table does not depend on which worker ended first.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def _part(self, table: str, key: str) -> Path:
        name = quote(key, safe="")
        if len(name) > _LONGEST:
            name = name[:_LONGEST].rstrip("%") + "~" + sha256(key.encode()).hexdigest()[:16]
        return self.folder / table / (name + _SUFFIX)

    def _parts(self, table: str) -> list[Path]:
        folder = self.folder / table
        return sorted(folder.glob(f"[!.]*{_SUFFIX}")) if folder.is_dir() else []

    def names(self) -> list[str]:
        """Tables that have at least one part."""
        if not self.folder.is_dir():
            return []
        return sorted(p.name for p in self.folder.iterdir() if p.is_dir() and self._parts(p.name))

    def keys(self, table: str) -> list[str]:
        """Keys written so far, sorted (a key over 180 characters shows shortened)."""
        return [unquote(part.name.removesuffix(_SUFFIX)) for part in self._parts(table)]

    def has(self, table: str, key: str) -> bool:
        """Whether `key` was written."""
        return self._part(table, key).exists()

    def append(self, table: str, frame: "pd.DataFrame", key: str) -> bool:
        """Write `frame` as the part `key`; False if that part was there already (no-op).

        Raises:
            MixlabError: the disk is full, or the frame has a column that Parquet cannot hold.
        """
        import pyarrow
        import pyarrow.parquet

        part = self._part(table, key)
        if part.exists():
            return False
        clean_temporaries(part.parent)
        try:
            content = pyarrow.Table.from_pandas(frame, preserve_index=False)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise MixlabError(
                f"table {table!r}, part {key!r}: a column holds values of several types "
                f"({error}). Give each column one type."
            ) from error
        with atomic_file(part) as aside:
            pyarrow.parquet.write_table(content, aside, compression="zstd")
        return True

    def read(self, table: str) -> "pd.DataFrame":
        """All parts as one DataFrame, in the order of their keys; empty if there are none.

        Raises:
            MixlabError: a part is truncated or is no Parquet file; the message names it.
        """
        import pandas as pd
        import pyarrow
        import pyarrow.parquet

        pieces = []
        for part in self._parts(table):
            try:
                pieces.append(pyarrow.parquet.read_table(part))
            except (pyarrow.ArrowInvalid, OSError) as error:
                raise MixlabError(
                    f"{part} is truncated or damaged ({str(error).splitlines()[0]}). Delete this "
                    "file and start the same sweep again: only these rows are made anew."
                ) from error
        if not pieces:
            return pd.DataFrame()
        return pyarrow.concat_tables(pieces, promote_options="permissive").to_pandas()
