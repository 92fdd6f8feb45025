"""Where two configs compute different functions: all differences at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from mixlab.models._anatomy import text_config
from mixlab.models._kin import ROPE_OF_IMAGES
from mixlab.models.backbone._config import backbone_config, natural_type
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# Names that configs have for one thing, by what it is.
_SIZES = {
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "intermediate_size": ("intermediate_size", "ffn_dim", "n_inner"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "num_key_value_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "hidden_act": ("hidden_act", "hidden_activation", "activation_function"),
    "num_experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "moe_intermediate_size": ("moe_intermediate_size",),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts"),
    "shared_expert_intermediate_size": ("shared_expert_intermediate_size",),
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "v_head_dim": ("v_head_dim",),
}
_SAME = {"gelu_pytorch_tanh": "gelu_new", "gelu_tanh": "gelu_new", "gelu_fast": "gelu_new",
         "swish": "silu"}  # fmt: skip
_RENAMED = {
    "hidden_activation": "hidden_act",
    "layer_norm_eps": "rms_norm_eps",
    "norm_eps": "rms_norm_eps",
    "layer_norm_epsilon": "rms_norm_eps",
}
# How configs store, train, search and count tokens: nothing that a decoder computes.
_NO_FUNCTION = frozenset(
    {"architectures", "model_type", "transformers_version", "dtype", "torch_dtype", "use_cache",
     "output_attentions", "output_hidden_states", "return_dict", "id2label", "label2id",
     "problem_type", "initializer_range", "output_router_logits", "router_aux_loss_coef",
     "is_encoder_decoder", "vocab_size", "max_position_embeddings", "chunk_size_feed_forward",
     "pretraining_tp", "quantization_config", "cross_attention_layers"}
)  # fmt: skip
# Said in one line each, from several fields.
_TOGETHER = frozenset(
    {"use_sliding_window", "max_window_layers", "sliding_window", "layer_types",
     "sliding_window_pattern", "rope_parameters", "rope_scaling", "rope_theta"}
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One thing in which the two language models differ.

    Args:
        field: what differs, as configs of transformers call it.
        vlm: its value in the VLM; None where it has none.
        reference: its value in the reference.
        kind: `size` where the two can't be merged; `function` where they can, with the VLM's kept.
    """

    field: str
    vlm: Any
    reference: Any
    kind: Literal["size", "function"]

    def __str__(self) -> str:
        return f"{self.field}: backbone {self.vlm}, reference {self.reference}"


def compare_configs(vlm_config: PretrainedConfig, lm_config: PretrainedConfig) -> list[Difference]:
    """Everything that changes what the two language models compute, sizes first.

    Sizes are depth, widths, heads, experts, and the activation. Functions are the family, the
    rope of each kind of layer, M-RoPE, windows, norms, biases, soft-caps, scales, routing, and
    whatever else only one of the configs or both with other values have. Tokens are not compared.
    """
    ours, theirs = _stand_alone(vlm_config), text_config(lm_config)
    found: list[Difference] = []
    for field, names in _SIZES.items():
        mine, its = _size(ours, field, names), _size(theirs, field, names)
        if mine != its and (mine is not None or its is not None):
            found.append(Difference(field, mine, its, "size"))
    families = natural_type(vlm_config) or ours.model_type, natural_type(lm_config)
    if families[0] != families[1]:
        found.append(Difference("model_type", *families, "function"))
    mine, its = _function(ours), _function(theirs)
    mine["mrope"], its["mrope"] = _mrope(text_config(vlm_config)), _mrope(theirs)
    for field in sorted(mine.keys() | its.keys()):
        one, other = mine.get(field), its.get(field)
        # A field that one family's config has not, or has off, is no difference by itself.
        if one == other or (not one and not other):
            continue
        if (field not in mine or field not in its) and families[0] == families[1]:
            one_sided = mine.get(field, its.get(field))
            if one_sided in (None, False, 0, [], {}, 1.0):
                continue
        found.append(Difference(field, one, other, "function"))
    return found


def _stand_alone(config: PretrainedConfig) -> PretrainedConfig:
    """What the language model computes, in the words of the LM family that it is kin to."""
    try:
        made, _ = backbone_config(config, bool(getattr(config, "tie_word_embeddings", False)))
    except MixlabError:
        return text_config(config)
    return text_config(made)


def _value(config: PretrainedConfig, name: str) -> Any:
    """A field of a config; where it differs by layer, a list of its values."""
    try:
        return getattr(config, name, None)
    except Exception:  # transformers' own class, private: the field is a layer's, not the model's
        return [getattr(one, name, None) for one in config.per_layer_config]


def _size(config: PretrainedConfig, field: str, names: tuple[str, ...]) -> Any:
    value = next((v for n in names if (v := _value(config, n)) is not None), None)
    if field == "num_hidden_layers" and value is not None:
        value -= len(getattr(config, "cross_attention_layers", None) or ())
    if value is None and field == "head_dim":
        value = config.hidden_size // config.num_attention_heads
    if value is None and field == "num_key_value_heads":
        value = config.num_attention_heads
    return _SAME.get(value, value) if isinstance(value, str) else value


def _function(config: PretrainedConfig) -> dict[str, Any]:
    sizes = {name for names in _SIZES.values() for name in names}
    out: dict[str, Any] = {}
    for name, value in config.to_dict().items():
        if name in _NO_FUNCTION | _TOGETHER or name in sizes or name.startswith("_"):
            continue
        if "dropout" in name or name.endswith(("token_id", "token_index", "_plan")):
            continue
        out[_RENAMED.get(name, name)] = value
    out["rope"] = _rope(config)
    out["sliding_window"] = _windows(config)
    return out


def _mrope(config: PretrainedConfig) -> Any:
    rope = dict(getattr(config, "rope_parameters", None) or {})
    return {k: v for k, v in rope.items() if k in ROPE_OF_IMAGES and v} or None


def _rope(config: PretrainedConfig) -> Any:
    rope = dict(getattr(config, "rope_parameters", None) or {})
    kept = {
        k: _plain(v) if isinstance(v, dict) else v
        for k, v in rope.items()
        if k not in ROPE_OF_IMAGES and v is not None
    }
    return _plain(kept)


def _plain(rope: dict[str, Any]) -> dict[str, Any]:
    out = {k: float(v) if isinstance(v, int) and not isinstance(v, bool) else v
           for k, v in rope.items() if v is not None}  # fmt: skip
    if out.get("rope_type") == "mrope":
        out["rope_type"] = "default"
    out.pop("type", None)
    return out


def _windows(config: PretrainedConfig) -> Any:
    """The window of each layer; None where every layer sees all."""
    window = _value(config, "sliding_window")
    kinds = _value(config, "layer_types")
    apart = set(getattr(config, "cross_attention_layers", None) or ())
    if kinds is None:
        if window is None or getattr(config, "use_sliding_window", True) is False:
            return None
        kinds = ["sliding_attention"] * config.num_hidden_layers
    kinds = [kind for at, kind in enumerate(kinds) if at not in apart]
    if set(kinds) <= {"full_attention"}:
        return None
    return {"layer_types": kinds, "window": window if "sliding_attention" in kinds else None}
