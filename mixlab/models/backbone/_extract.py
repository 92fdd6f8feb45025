"""Take the language model out of a VLM."""

from __future__ import annotations

import copy as copying
from typing import TYPE_CHECKING, Any

from mixlab.models._anatomy import is_vlm, read_anatomy
from mixlab.models.backbone._config import backbone_config, natural_type
from mixlab.models.backbone._fit import check_fit, first_rows
from mixlab.models.backbone._refuse import refuse_unreadable
from mixlab.models.backbone._state import backbone_state, tied
from mixlab.models.backbone._trial import compare_logits
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

# Families whose logits tests compare, in the class that is chosen without a reference.
_TESTED = frozenset(
    {"aya_vision", "gemma3", "glm4v", "glm4v_moe", "idefics2", "idefics3", "internvl", "lfm2_vl",
     "llama4", "llava", "llava_next", "llava_onevision", "mistral3", "mllama", "molmo2", "ovis2",
     "paligemma", "perception_lm", "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "qwen3_vl_moe", "smolvlm"}
)  # fmt: skip


def extract_backbone(
    vlm: PreTrainedModel, reference: PreTrainedModel | None = None, *, copy: bool = False
) -> PreTrainedModel:
    """A stand-alone causal LM over the VLM's own tensors, embeddings and head.

    Its logits equal the VLM's on text-only input. Its class is the reference's if given, else
    that of `backbone_config`. Rows of the vocabulary that the LM has no place for (Mllama's and
    Molmo 2's image tokens, which have no row in the head) stay with the VLM: the LM has a view
    of the first rows. Where no test stands for the class that was chosen, the two are run on a
    few tokens and compared.

    Args:
        vlm: the VLM. It is not changed; its weights are shared unless `copy`.
        reference: an LM in whose class to write; its weights are not read.
        copy: whether to copy the tensors.

    Raises:
        MixlabError: no causal class fits, tensors cannot be placed in it (all are listed), the
            logits differ, or the weights are quantised, offloaded or wrapped by an adapter.
    """
    from accelerate import init_empty_weights

    refuse_unreadable(vlm)
    if not is_vlm(vlm):
        raise _no_vlm(vlm)
    anatomy = read_anatomy(vlm)
    given = None if reference is None else reference.config
    config, cls = backbone_config(vlm.config, tied(vlm), given, vlm_class=type(vlm))
    config.dtype = vlm.dtype
    # Buffers such as rope frequencies are not in a state dict, so they are made, not shared.
    with init_empty_weights(include_buffers=False):
        lm = cls(config)
    state = backbone_state(vlm)
    wanted = {name: tensor.shape for name, tensor in lm.state_dict().items()}
    for name in anatomy.vocabulary & wanted.keys() & state.keys():
        shape = first_rows(state[name].shape, wanted[name])
        if shape != state[name].shape:
            state[name] = state[name].detach()[: shape[0]]
    have = {name: tensor.shape for name, tensor in state.items()}
    check_fit(have, wanted, f"the backbone of {type(vlm).__name__}", cls.__name__)
    if copy:
        state = _copied(state)
    lm.load_state_dict(state, assign=True, strict=True)
    lm.tie_weights()
    _buffers(lm, vlm, anatomy.decoder, copy)
    if getattr(vlm, "generation_config", None) is not None:
        lm.generation_config = copying.deepcopy(vlm.generation_config)
    lm.train(vlm.training)
    if vlm.config.model_type not in _TESTED or config.model_type != natural_type(vlm.config):
        compare_logits(vlm, lm)
    return lm


def _no_vlm(model: PreTrainedModel) -> MixlabError:
    from transformers import PretrainedConfig

    name, parts = type(model).__name__, vars(model.config).items()
    beside = [key for key, value in parts if isinstance(value, PretrainedConfig) and key[0] != "_"]
    if beside and model.config.model_type != "mixlab_backbone":
        return MixlabError(
            f"{name} has no text config of its own beside {', '.join(beside)}: its decoder reads "
            "text and images with the same layers, so no language model stands apart in it"
        )
    return MixlabError(f"{name} is a language model already")


def _copied(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    done: dict[tuple[int, tuple[int, ...]], torch.Tensor] = {}
    for name, tensor in state.items():
        key = (tensor.data_ptr(), tuple(tensor.shape))
        if key not in done:
            new = tensor.detach().clone()
            done[key] = type(tensor)(new) if hasattr(tensor, "requires_grad_") else new
        state[name] = done[key]
    return state


def _buffers(lm: PreTrainedModel, vlm: PreTrainedModel, decoder: str, copy: bool) -> None:
    """Buffers that are not saved: the VLM's own where it has the same, or those made anew."""
    import torch

    own: dict[str, Any] = dict(vlm.get_submodule(decoder).named_buffers())
    device = vlm.device
    for name, made in list(lm.named_buffers()):
        buffer = made if made.device == device else made.to(device)
        other = own.get(name.removeprefix("model."))
        if other is not None and other.shape == buffer.shape and other.dtype != buffer.dtype:
            rounded = buffer.to(other.dtype)
            if torch.equal(rounded, other):
                buffer = other.clone() if copy else other
        if buffer is not made:
            path, _, leaf = name.rpartition(".")
            lm.get_submodule(path)._buffers[leaf] = buffer
