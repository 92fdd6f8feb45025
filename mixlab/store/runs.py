"""Run folders, named by what decides their content."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixlab import MixlabError
from mixlab.store.atomic import clean_temporaries, write_json
from mixlab.store.reading import read_json

_MARKER = "done.json"


class RunFolder:
    """`root/digest`, finished once its marker is written. Made on first use.

    The marker is the last file written, so that a folder without it is work in progress, whatever
    else it holds.
    """

    def __init__(self, root: str | os.PathLike[str], digest: str) -> None:
        self.digest = digest
        self.path = Path(root) / digest

    def open(self) -> Path:
        """Make the folder, remove what a killed writer left, and return its path."""
        self.path.mkdir(parents=True, exist_ok=True)
        clean_temporaries(self.path)
        return self.path

    @property
    def done(self) -> bool:
        """Whether the run was finished."""
        return (self.path / _MARKER).exists()

    def finish(self, info: Mapping[str, Any]) -> None:
        """Write the marker with `info` (JSON values)."""
        write_json(self.path / _MARKER, dict(info))

    def info(self) -> dict[str, Any]:
        """What `finish` was given.

        Raises:
            MixlabError: the run is not finished, or its marker is damaged.
        """
        if not self.done:
            raise MixlabError(
                f"run {self.path} is not finished: it has no {_MARKER}. Start its sweep again."
            )
        return read_json(
            self.path / _MARKER,
            "delete this file and start the sweep again: only this run is done anew",
        )
