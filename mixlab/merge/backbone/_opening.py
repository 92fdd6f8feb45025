"""A model folder opened for extraction or splice: headers, config and layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.checkpoint import Checkpoint, TensorSource
from mixlab.merge.planning._folders import model_folder
from mixlab.merge.planning._heads import Heads
from mixlab.merge.planning._opening import Side
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from mixlab.models.layout import Layout


@dataclass(frozen=True)
class Opened:
    """One folder.

    Args:
        checkpoint: its tensors, by headers.
        config: its config.json.
        layout: which of its tensors are the language model's.
    """

    checkpoint: Checkpoint
    config: dict[str, Any]
    layout: Layout

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.checkpoint.folder

    def side(self, source: TensorSource | None = None) -> Side:
        """As a model of a merge."""
        return Side(
            0, "model", (), str(self.folder), source or self.checkpoint, self.checkpoint,
            self.config,
        )  # fmt: skip

    def heads(self) -> Heads:
        """Its output head, and whether that is the embedding."""
        return Heads.of(self.side())

    def tied(self) -> bool:
        """Whether the files have no head of their own."""
        heads = self.heads()
        return heads.head is None or heads.tied


def open_model(given: str | Path, key: str, *, vlm: bool) -> Opened:
    """Open a folder.

    Args:
        key: name of its tensors in reports.
        vlm: whether it must have a part beside its language model.

    Raises:
        MixlabError: no such folder, damaged or quantised weights, tensors that cannot be placed, or
            the other kind of model.
    """
    from mixlab.models.layout import open_layout

    checkpoint = Checkpoint.open(model_folder(given), key=key)
    try:
        config = checkpoint.config()
        layout = open_layout(checkpoint)
        if vlm and layout.kind != "vlm":
            raise MixlabError(
                f"{checkpoint.folder} is a language model already ({layout.model_type}); give the "
                "folder of a VLM"
            )
    except BaseException:
        checkpoint.close()
        raise
    return Opened(checkpoint, config, layout)
