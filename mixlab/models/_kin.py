"""Text models that are another family's decoder, and how their configs read in it.

For text alone M-RoPE gives every axis the same position, which is plain rope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]

ROPE_OF_IMAGES = frozenset({"mrope_section", "mrope_interleaved"})


@dataclass(frozen=True)
class Kin:
    """The LM family whose decoder a text model runs.

    Args:
        model_type: the family's model type.
        given: values of its config that the text model has in its code.
        change: what else to change in the values.
        unread: fields of the text config that its decoder does not read for text.
    """

    model_type: str
    given: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[Values], None] | None = None
    unread: frozenset[str] = frozenset()


def _glm4(values: Values) -> None:
    if not values.get("head_dim"):
        values["head_dim"] = values["hidden_size"] // values["num_attention_heads"]
    # GLM-4's config takes half of each head for the default, GLM-4V's decoder the whole.
    values["rope_parameters"].setdefault("partial_rotary_factor", 1.0)


def _mllama(values: Values) -> None:
    values["num_hidden_layers"] -= len(values.pop("cross_attention_layers"))


def _molmo2_qwen3(values: Values) -> None:
    for name in ("additional_vocab_size", "qk_norm_type", "norm_after", "rope_scaling_layers"):
        values.pop(name, None)


def _molmo2_olmo3(values: Values) -> None:
    # Olmo 3 scales the rope of full attention alone, and has a window where it does not scale;
    # a window as long as all positions is none.
    scaled = set(values["rope_scaling_layers"])
    rope = values["rope_parameters"]
    plain = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
    kinds = ["full_attention" if at in scaled else "sliding_attention"
             for at in range(values["num_hidden_layers"])]  # fmt: skip
    _molmo2_qwen3(values)
    values.pop("head_dim")
    values["layer_types"] = kinds
    values["sliding_window"] = values["max_position_embeddings"]
    values["rope_parameters"] = {"full_attention": rope, "sliding_attention": plain}


_QWEN3_MOE = Kin("qwen3_moe", {"norm_topk_prob": True})
_KIN = {
    "qwen2_vl_text": Kin("qwen2"),
    "qwen2_5_vl_text": Kin("qwen2"),
    "qwen2_5_omni_text": Kin("qwen2"),
    "qwen3_vl_text": Kin("qwen3"),
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_omni_moe_text": Kin("qwen3_moe"),
    "glm4v_text": Kin("glm4", {"attention_bias": True}, _glm4),
    "glm4v_moe_text": Kin("glm4_moe", {"use_qk_norm": False}, _glm4),
    "mllama_text_model": Kin("llama", change=_mllama),
}


def kin(text: Any) -> Kin | None:
    """The family whose decoder this text config describes, where it is not its own."""
    if text.model_type == "molmo2_text":
        return _molmo2(text)
    return _KIN.get(text.model_type)


def _molmo2(text: Any) -> Kin | None:
    everywhere = list(text.rope_scaling_layers) == list(range(text.num_hidden_layers))
    if text.qk_norm_type == "qwen3" and not text.norm_after and everywhere:
        return Kin("qwen3", change=_molmo2_qwen3)
    heads = text.num_attention_heads * text.head_dim
    if text.qk_norm_type == "olmo" and text.norm_after and heads == text.hidden_size:
        return Kin("olmo3", change=_molmo2_olmo3)
    return None


_AFTER = {"post_attention_layernorm": "post_feedforward_layernorm",
          "input_layernorm": "post_attention_layernorm"}  # fmt: skip


def renamed(text: Any, name: str) -> str:
    """A name in the text model's decoder as the other family has it."""
    if text.model_type != "molmo2_text" or not text.norm_after:
        return name
    found = kin(text)
    if found is None or found.model_type != "olmo3":
        return name
    parts = name.split(".")
    return ".".join(_AFTER.get(part, part) for part in parts)
