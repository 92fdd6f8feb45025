"""A batch of tensors: a pure function of (plan, k)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixlab.spec import MixlabError

from ._encoding import Encoder, encoded_rows
from ._plan import Plan
from ._source import Source

if TYPE_CHECKING:
    import torch

IGNORED = -100
"""Label of positions without loss (torch's default `ignore_index`)."""


def collate(
    plan: Plan, k: int, sources: Sequence[Source], encoder: Encoder
) -> dict[str, torch.Tensor]:
    """Step k of a plan as tensors; the same whatever was asked before.

    Returns:
        input_ids, attention_mask, labels: int64 [rows, longest], padded on the right with the
        encoder's pad id, 0 and -100; labels are -100 wherever no loss falls. pixel_values:
        float32 [images, C, H, W], one per row with an image, in the order of rows; absent in a
        batch of text.

    Raises:
        MixlabError: no such step, sources or an encoder other than the plan's, or an image that
            went bad since it was checked.
    """
    import torch

    check_sources(plan, sources, encoder)
    batch = plan.batch(k)
    rows = [encoded_rows(source, encoder) for source in sources]
    examples = [rows[entry.source].example(entry.row, entry.format) for entry in batch]
    longest = max(len(ids) for ids, _, _ in examples)
    input_ids = np.full((len(batch), longest), encoder.pad_id, dtype=np.int64)
    attention = np.zeros_like(input_ids)
    labels = np.full_like(input_ids, IGNORED)
    for line, (ids, supervised, _) in enumerate(examples):
        input_ids[line, : len(ids)] = ids
        attention[line, : len(ids)] = 1
        labels[line, : len(ids)] = np.where(supervised, ids, IGNORED)
    made = {
        "input_ids": torch.from_numpy(input_ids),
        "attention_mask": torch.from_numpy(attention),
        "labels": torch.from_numpy(labels),
    }
    pixels = [pixel for _, _, pixel in examples if pixel is not None]
    if pixels:
        shapes = {pixel.shape for pixel in pixels}
        if len(shapes) > 1:
            raise MixlabError(
                f"step {k} holds images of different shapes {sorted(shapes)}; a batch needs one "
                "shape, so give the image processor a fixed size"
            )
        made["pixel_values"] = torch.from_numpy(np.stack(pixels).astype(np.float32, copy=False))
    return made


def check_sources(plan: Plan, sources: Sequence[Source], encoder: Encoder) -> None:
    """Raise MixlabError unless these are the sources and the encoder of the plan."""
    found = [source.digest for source in sources]
    wanted = [source["digest"] for source in plan.sources]
    if found != wanted:
        names = [
            source["name"]
            for number, source in enumerate(plan.sources)
            if number >= len(found) or found[number] != source["digest"]
        ]
        raise MixlabError(
            f"the sources {names} are not the ones that the plan was made from (their rows, "
            "images or wordings differ); plan again"
        )
    if plan.encoder != encoder.digest:
        raise MixlabError(
            "the plan was made with another tokenizer, chat template or image processor; plan again"
        )
