"""The output of an earlier document before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from mixlab.checkpoint import TensorEntry, tensor_size
from mixlab.merge._plan import MergePlan
from mixlab.spec import MixlabError


@dataclass
class PlannedSource:
    """The output of an earlier document before it is made: headers only."""

    key: str
    plan: MergePlan
    entries: Mapping[str, TensorEntry] = field(init=False)

    def __post_init__(self) -> None:
        self.entries = {
            t.name: TensorEntry(t.name, t.dtype, t.shape, 0, tensor_size(t.dtype, t.shape))
            for t in self.plan.written
        }

    def streams(self, name: str) -> bool:
        """As the folder will."""
        return True

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        """Refused: there are no weights yet."""
        raise MixlabError(self._told(name))

    def read(self, name: str) -> torch.Tensor:
        """Refused: there are no weights yet."""
        raise MixlabError(self._told(name))

    def _told(self, name: str) -> str:
        return (
            f"{name} of an intermediate output is asked for, which exists only while the merge "
            "runs; to have it, run its document alone"
        )
