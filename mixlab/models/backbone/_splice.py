"""Write a stand-alone LM back into a VLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlab.models.backbone._fit import check_fit, first_rows
from mixlab.models.backbone._refuse import refuse_unreadable
from mixlab.models.backbone._state import backbone_state, vocabulary_names

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def splice_backbone(vlm: PreTrainedModel, lm: PreTrainedModel) -> PreTrainedModel:
    """Write the tensors of a stand-alone LM into the VLM, in place; returns the VLM.

    Rows of the VLM's vocabulary beyond the LM's stay. Vision tower and projector are not touched.

    Raises:
        MixlabError: names or shapes differ (all are listed); weights are quantised, offloaded or
            wrapped by an adapter. Nothing is written then.
    """
    import torch

    for model in (vlm, lm):
        refuse_unreadable(model)
    target, source = backbone_state(vlm), backbone_state(lm)
    rows = vocabulary_names(vlm)
    shapes = {
        name: first_rows(tensor.shape, source[name].shape)
        if name in rows and name in source
        else tensor.shape
        for name, tensor in target.items()
    }
    have = {name: tensor.shape for name, tensor in source.items()}
    check_fit(have, shapes, type(lm).__name__, "the VLM")
    with torch.no_grad():
        for name, tensor in target.items():
            new = source[name]
            if tensor.data_ptr() != new.data_ptr():
                tensor[: len(new)].copy_(new) if tensor.dim() else tensor.copy_(new)
    return vlm
