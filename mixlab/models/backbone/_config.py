"""The config and class of the stand-alone LM inside a VLM, from configs alone."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from mixlab.models._anatomy import read_anatomy, text_config
from mixlab.models._classes import causal_class, model_class
from mixlab.models._kin import ROPE_OF_IMAGES, Kin, kin
from mixlab.models.backbone._register import register
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# What causal classes do to the head's output, with the value that does nothing. A VLM's class
# with a head of its own does it only where its code says so.
_AFTER_HEAD: dict[str, Any] = {
    "logit_scale": 1.0,
    "logits_scaling": 1.0,
    "lm_head_multiplier": 1.0,
    "output_multiplier": 1.0,
    "final_logit_softcapping": None,
}
_FACTORS = {
    "logit_scale": 1, "logits_scaling": -1, "lm_head_multiplier": 1, "output_multiplier": 1,
}  # fmt: skip
# Fields that say how to store, train or search, not what is computed.
_NO_FUNCTION = frozenset(
    {"architectures", "dtype", "torch_dtype", "use_cache", "id2label", "label2id", "problem_type",
     "output_attentions", "output_hidden_states", "return_dict", "initializer_range",
     "attention_dropout", "output_router_logits", "router_aux_loss_coef", "is_encoder_decoder",
     "bos_token_id", "eos_token_id", "pad_token_id", "image_token_id", "video_token_id",
     "vision_start_token_id", "vision_end_token_id", "vision_token_id", "tie_word_embeddings",
     "vocab_size", "max_window_layers", "use_sliding_window"}
)  # fmt: skip


def backbone_config(
    config: PretrainedConfig,
    tied: bool,
    reference_config: PretrainedConfig | None = None,
    *,
    vlm_class: type[PreTrainedModel] | None = None,
) -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    """What a VLM's language model is as a stand-alone causal LM; no weights are made.

    The class is the reference's, if given; else the text config's own; else that of the family
    whose decoder it runs; else ours around the family's own decoder. The config computes what the
    VLM computes on text: where the VLM's class leaves out what the causal class does to the
    logits (`logit_scale`, a soft-cap), the config turns it off.

    Args:
        config: the VLM's config.
        tied: whether the output head is the embedding.
        reference_config: of the LM whose class to write in.
        vlm_class: the VLM's class; by default the one that transformers has for the config.

    Raises:
        MixlabError: the reference's class can't say what the text config says (all fields are
            named), or there is no causal decoder.
    """
    text = text_config(config)
    vlm_class = vlm_class or model_class(config, config.architectures)
    own = causal_class(type(text))
    related = kin(text) if own is None else None
    made: Any
    if reference_config is not None:
        target: Any = type(reference_config)
        if target is type(text) and own is not None:
            related, made = None, _own(text)
        elif related is not None and related.model_type == reference_config.model_type:
            made = _translated(text, target, related)
        elif reference_config.model_type == "mixlab_backbone":
            own = related = None
            made = None
        else:
            related, made = None, _translated(text, target, Kin(reference_config.model_type))
        if made is None and reference_config.model_type != "mixlab_backbone":
            raise _unsaid(text, target, related)
    elif own is not None:
        made = _own(text)
    elif related is not None:
        made = _translated(text, _config_class(related.model_type), related)
    else:
        made = None
    if made is None:
        made, cls = _generic(config, text, tied, vlm_class)
    else:
        own = causal_class(type(made))
        if own is None:
            raise MixlabError(
                f"transformers has no causal class for {type(made).__name__}; give a reference "
                "that is a causal language model"
            )
        cls = own
        _undo_after_head(made, vlm_class)
    made.tie_word_embeddings = tied
    made.architectures = [cls.__name__]
    if made.dtype is None:
        made.dtype = text.dtype if text.dtype is not None else config.dtype
    asked = getattr(text, "_attn_implementation", None)
    if asked is not None:
        made._attn_implementation = asked
    return made, cls


def natural_type(config: PretrainedConfig) -> str | None:
    """Model type of the LM family whose function the text config describes; None for no family."""
    text = text_config(config)
    if causal_class(type(text)) is not None:
        return str(text.model_type)
    related = kin(text)
    return None if related is None else related.model_type


def _own(text: PretrainedConfig) -> PretrainedConfig:
    made = copy.deepcopy(text)
    if getattr(made, "quantization_config", None) is not None:
        del made.quantization_config
    return made


def _translated(text: PretrainedConfig, target: Any, related: Kin) -> PretrainedConfig | None:
    """The text config in another class; None where that class can't say what it says."""
    values = _values(text, related)
    if _leftover(values, target, related):
        return None
    kept = {name: value for name, value in values.items() if name in _known(target)}
    return target.from_dict(kept)


def _values(text: PretrainedConfig, related: Kin) -> dict[str, Any]:
    values = copy.deepcopy(text.to_dict())
    for key in ("model_type", "architectures", "transformers_version", "quantization_config"):
        values.pop(key, None)
    if isinstance(values.get("rope_parameters"), dict):
        rope = {k: v for k, v in values["rope_parameters"].items() if k not in ROPE_OF_IMAGES}
        if rope.get("rope_type") == "mrope":
            rope["rope_type"] = "default"
        values["rope_parameters"] = rope
    values.update(related.given)
    if related.change is not None:
        related.change(values)
    return values


def _known(target: Any) -> set[str]:
    # Decoders read `head_dim` where their config class does not list it.
    fields = {field.name for field in dataclasses.fields(target)}
    aliases = target.attribute_map
    return fields | aliases.keys() | set(aliases.values()) | {"head_dim"}


def _leftover(values: dict[str, Any], target: Any, related: Kin) -> dict[str, Any]:
    """What changes the function and has no place in the target class."""
    return {
        name: value
        for name, value in values.items()
        if name not in _known(target)
        and name not in _NO_FUNCTION | related.unread
        and not name.startswith("_")
        and value not in (None, False, [], {}, 0)
    }


def _unsaid(text: PretrainedConfig, target: Any, related: Kin | None) -> MixlabError:
    related = related or Kin("")
    left = _leftover(_values(text, related), target, related)
    said = ", ".join(f"{name}={value!r}" for name, value in sorted(left.items()))
    return MixlabError(
        f"{target.__name__} has no place for what {type(text).__name__} says: {said}; give no "
        "reference class, or one of the VLM's own family"
    )


def _undo_after_head(made: PretrainedConfig, vlm_class: type | None) -> None:
    if vlm_class is None:
        return
    source = inspect.getsource(vlm_class)
    if "self.lm_head" not in source:
        return  # a whole causal LM is inside, and does it
    for name, neutral in _AFTER_HEAD.items():
        if hasattr(made, name) and name not in source:
            setattr(made, name, neutral)


def _generic(
    config: PretrainedConfig, text: PretrainedConfig, tied: bool, vlm_class: Any
) -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    import torch

    from mixlab.models.backbone._lm import BackboneConfig, BackboneForCausalLM

    register()
    if vlm_class is None:
        raise MixlabError(
            f"model type {config.model_type!r}: transformers has no model with text and images "
            "for it, so its language model can't be found"
        )
    with torch.device("meta"):
        vlm = vlm_class(copy.deepcopy(config))
    anatomy = read_anatomy(vlm)
    if anatomy.head is None:
        raise MixlabError(f"{vlm_class.__name__} has no output head: it computes no logits")
    decoder, head = vlm.get_submodule(anatomy.decoder), vlm.get_submodule(anatomy.head)
    inside: Any = copy.deepcopy(text)
    if getattr(inside, "quantization_config", None) is not None:
        del inside.quantization_config
    source = inspect.getsource(vlm_class)
    factor = 1.0
    for name, power in _FACTORS.items():
        value = getattr(text, name, None)
        if name in source and value is not None:
            factor *= float(value) ** power
    cap = "final_logit_softcapping" in source and getattr(text, "final_logit_softcapping", None)
    rows = head.weight.shape[0]
    tokens: dict[str, Any] = {
        name: getattr(text, name, None) for name in ("bos_token_id", "eos_token_id", "pad_token_id")
    }
    made = BackboneConfig(
        family=inside,
        decoder_class=type(decoder).__name__,
        head_rows=None if rows == text.vocab_size else rows,
        head_bias=getattr(head, "bias", None) is not None,
        logit_factor=factor,
        logit_softcap=cap or None,
        **tokens,
    )
    return made, BackboneForCausalLM


def _config_class(model_type: str) -> Any:
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type]
