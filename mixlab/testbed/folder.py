"""Where the parts of a built testbed lie."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.store import read_json

MARKER = "build.json"


@dataclass(frozen=True)
class TestbedFolder:
    """A built pair with its data and tasks; ordinary Hugging Face folders and plain files."""

    __test__ = False  # pytest would take the name for a test class

    path: Path

    @property
    def reference(self) -> Path:
        """The text LM that a gap is measured against."""
        return self.path / "reference"

    @property
    def vlm(self) -> Path:
        """The aligned VLM that arms start from."""
        return self.path / "vlm"

    @property
    def data(self) -> Path:
        """Training rows (JSONL) and their images."""
        return self.path / "data"

    @property
    def tasks(self) -> Path:
        """Task YAML files with their items and images."""
        return self.path / "tasks"

    @property
    def complete(self) -> bool:
        """Whether the build was finished: the marker is written last."""
        return (self.path / MARKER).is_file()

    def info(self) -> dict[str, Any]:
        """The marker: settings, digest, figures and times of the build."""
        return read_json(self.path / MARKER, "remove this folder and build the testbed again")
