"""The live tensors of a model's language model, under backbone names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlab.models._anatomy import is_vlm, read_anatomy

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def backbone_state(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Live tensors of the language model, named as in the stand-alone causal LM.

    For a causal LM this is its state dict. For a VLM see `read_anatomy`; rows of its vocabulary
    that the stand-alone LM has not are in it. Tied weights stand under both names.

    Raises:
        MixlabError: the model has no causal decoder that can be told from its vision part.
    """
    state = model.state_dict(keep_vars=True)
    if not is_vlm(model):
        return dict(state)
    return {backbone: state[name] for name, backbone in read_anatomy(model).names.items()}


def vocabulary_names(model: PreTrainedModel) -> set[str]:
    """Names in `backbone_state` whose first axis counts tokens of the vocabulary."""
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    inside = {id(p) for t in tables if t is not None for p in t.parameters()}
    return {name for name, tensor in backbone_state(model).items() if id(tensor) in inside}


def tied(model: PreTrainedModel) -> bool:
    """Whether the output head is the embedding itself, in memory."""
    head: Any = model.get_output_embeddings()
    table: Any = model.get_input_embeddings()
    if head is None or table is None:
        return False
    if head.weight.is_meta or table.weight.is_meta:
        return head.weight is table.weight
    return head.weight.data_ptr() == table.weight.data_ptr()
