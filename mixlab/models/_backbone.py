"""The language model inside a VLM: its tensors, a stand-alone LM of them, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

# Text configs that have no causal class of their own, with the LM family whose decoder they run.
# For text alone M-RoPE gives every axis the same position, which is that family's plain rope.
_REFERENCE_TYPE = {
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
}
ROPE_OF_IMAGES = {"mrope_section", "mrope_interleaved"}


def backbone_state(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Live tensors of the language model, named as in the stand-alone causal LM.

    For a causal LM this is its state dict. For a VLM the decoder's names get the prefix `model.`,
    and the output head is `lm_head.*`. Tied weights stand under both names, as in a state dict.

    Raises:
        MixlabError: the model has no causal decoder that can be told from its vision part.
    """
    if not _is_vlm(model):
        return dict(model.state_dict(keep_vars=True))
    decoder = _decoder(model)
    state = {f"model.{name}": t for name, t in decoder.state_dict(keep_vars=True).items()}
    head = model.get_output_embeddings()
    if head is not None:
        for name, tensor in head.state_dict(keep_vars=True).items():
            state[f"lm_head.{name}"] = tensor
    return state


def extract_backbone(
    vlm: PreTrainedModel, reference: PreTrainedModel | None = None
) -> PreTrainedModel:
    """A stand-alone causal LM over the VLM's own tensors, embeddings and head (nothing is copied).

    Written in the class of `reference` if given, else in the causal class that transformers has
    for the VLM's text config. Its logits equal the VLM's on text-only input.

    Raises:
        MixlabError: no causal class fits, or tensors cannot be placed in it (all are listed).
    """
    import torch
    from accelerate import init_empty_weights

    if not _is_vlm(vlm):
        raise MixlabError(f"{type(vlm).__name__} is a language model already")
    config, cls = _causal(vlm, reference)
    # Buffers such as rope frequencies are not in a state dict, so they are made, not shared.
    with init_empty_weights(include_buffers=False):
        lm = cls(config)
    state = backbone_state(vlm)
    wanted = lm.state_dict()
    _check_names(
        {n: t.shape for n, t in state.items()},
        {n: t.shape for n, t in wanted.items()},
        f"the backbone of {type(vlm).__name__}",
        cls.__name__,
    )
    lm.load_state_dict(state, assign=True, strict=True)
    if getattr(vlm, "generation_config", None) is not None:
        lm.generation_config = vlm.generation_config
    for buffer_name, buffer in lm.named_buffers():
        owner, _, leaf = buffer_name.rpartition(".")
        lm.get_submodule(owner)._buffers[leaf] = buffer.to(vlm.device)
    with torch.no_grad():
        lm.train(vlm.training)
    return lm


def splice_backbone(vlm: PreTrainedModel, lm: PreTrainedModel) -> PreTrainedModel:
    """Write the tensors of a stand-alone LM into the VLM, in place; returns the VLM.

    Rows of the VLM's vocabulary beyond the LM's stay. Vision tower and projector are not touched.

    Raises:
        MixlabError: names or shapes differ (all are listed); nothing is written then.
    """
    import torch

    target = backbone_state(vlm)
    source = backbone_state(lm)
    rows = vocabulary_names(vlm)
    shapes = {}
    for name, tensor in target.items():
        shape = tensor.shape
        if name in rows and name in source and source[name].shape[0] <= shape[0]:
            shape = torch.Size((source[name].shape[0], *shape[1:]))
        shapes[name] = shape
    _check_names({n: t.shape for n, t in source.items()}, shapes, type(lm).__name__, "the VLM")
    with torch.no_grad():
        for name, tensor in target.items():
            new = source[name]
            if tensor.data_ptr() != new.data_ptr():
                tensor[: len(new)].copy_(new) if tensor.dim() else tensor.copy_(new)
    return vlm


def vocabulary_names(model: PreTrainedModel) -> set[str]:
    """Names in `backbone_state` whose first axis counts tokens of the vocabulary."""
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    addresses = {p.data_ptr() for t in tables if t is not None for p in t.parameters()}
    return {n for n, t in backbone_state(model).items() if t.data_ptr() in addresses}


def _is_vlm(model: PreTrainedModel) -> bool:
    return model.config.get_text_config(decoder=True) is not model.config


def _decoder(model: PreTrainedModel) -> torch.nn.Module:
    decoder = model.get_decoder()
    text = model.config.get_text_config(decoder=True)
    if decoder is model or getattr(decoder, "config", None) is None:
        raise MixlabError(f"{type(model).__name__}: transformers names no decoder in it")
    if decoder.config.model_type != text.model_type or not hasattr(decoder, "layers"):
        raise MixlabError(
            f"{type(model).__name__}: the decoder {type(decoder).__name__} "
            f"({decoder.config.model_type}) is not the text model ({text.model_type}) alone"
        )
    return decoder


def _causal(
    vlm: PreTrainedModel, reference: PreTrainedModel | None
) -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING

    text = vlm.config.get_text_config(decoder=True)
    own = type(text) in MODEL_FOR_CAUSAL_LM_MAPPING
    if reference is not None:
        config_class = type(reference.config)
    elif own:
        config_class = type(text)
    elif text.model_type in _REFERENCE_TYPE:
        config_class = CONFIG_MAPPING[_REFERENCE_TYPE[text.model_type]]
    else:
        raise MixlabError(
            f"{type(vlm).__name__}: transformers has no causal class for text config "
            f"{text.model_type!r}; pass the reference LM so that its class is used"
        )
    values = text.to_dict()
    for key in ("model_type", "architectures", "transformers_version"):
        values.pop(key, None)
    if config_class is not type(text) and isinstance(values.get("rope_parameters"), dict):
        rope = {k: v for k, v in values["rope_parameters"].items() if k not in ROPE_OF_IMAGES}
        if rope.get("rope_type") == "mrope":
            rope["rope_type"] = "default"
        values["rope_parameters"] = rope
    config = config_class.from_dict(values)
    config.tie_word_embeddings = tied(vlm)
    config.dtype = vlm.dtype
    config._attn_implementation = text._attn_implementation
    cls: Any = MODEL_FOR_CAUSAL_LM_MAPPING[config_class]
    return config, cls[0] if isinstance(cls, tuple) else cls


def tied(model: PreTrainedModel) -> bool:
    """Whether the output head is the embedding itself, in memory."""
    head: Any = model.get_output_embeddings()
    table: Any = model.get_input_embeddings()
    return head is not None and head.weight.data_ptr() == table.weight.data_ptr()


def _check_names(
    have: dict[str, torch.Size], want: dict[str, torch.Size], source: str, target: str
) -> None:
    wrong = [f"{n}: not in {target}" for n in sorted(have.keys() - want.keys())]
    wrong += [f"{n}: not in {source}" for n in sorted(want.keys() - have.keys())]
    wrong += [
        f"{n}: {list(have[n])} in {source}, {list(want[n])} in {target}"
        for n in sorted(have.keys() & want.keys())
        if have[n] != want[n]
    ]
    if wrong:
        listed = "\n  ".join(wrong[:40]) + (f"\n  and {len(wrong) - 40} more" * (len(wrong) > 40))
        raise MixlabError(f"{source} does not fit {target}; nothing was written:\n  {listed}")
