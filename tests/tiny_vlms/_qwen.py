"""Qwen's families, whose text models count positions in three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from tiny_vlms._family import (
    END,
    IMAGE,
    START,
    TEXT,
    VIDEO,
    WINDOW,
    Family,
    Names,
    State,
    pixels,
    prompt,
)

TOKENS = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": START,
    "vision_end_token_id": END,
}
SLIDING = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
HUB: Names = (
    (r"^model\.language_model\.", "model."),
    (r"^model\.visual\.", "visual."),
)


def rope(**more: object) -> dict:
    return {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [2, 1, 1], **more}


def qwen2_vl(tied: bool) -> hf.PretrainedConfig:
    return hf.Qwen2VLConfig(
        text_config={**TEXT, **SLIDING, "rope_parameters": rope()},
        vision_config={
            "depth": 2,
            "embed_dim": 16,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": 4,
        },
        tie_word_embeddings=tied,
        **TOKENS,
    )


def qwen2_5_vl(tied: bool) -> hf.PretrainedConfig:
    return hf.Qwen2_5_VLConfig(
        text_config={**TEXT, **SLIDING, "rope_parameters": rope()},
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "out_hidden_size": 32,
            "intermediate_size": 24,
            "num_heads": 2,
            "patch_size": 4,
            "window_size": 8,
            "fullatt_block_indexes": [1],
        },
        tie_word_embeddings=tied,
        **TOKENS,
    )


def qwen3_vl(tied: bool) -> hf.PretrainedConfig:
    rope3 = rope(mrope_section=[4, 2, 2], mrope_interleaved=True)
    return hf.Qwen3VLConfig(
        text_config={**TEXT, "head_dim": 16, "rope_parameters": rope3},
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "out_hidden_size": 32,
            "intermediate_size": 24,
            "num_heads": 2,
            "patch_size": 4,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
        tie_word_embeddings=tied,
        **TOKENS,
    )


def qwen3_vl_moe(tied: bool) -> hf.PretrainedConfig:
    rope3 = rope(mrope_section=[4, 2, 2], mrope_interleaved=True)
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    return hf.Qwen3VLMoeConfig(
        text_config={**TEXT, **experts, "head_dim": 16, "rope_parameters": rope3},
        vision_config=qwen3_vl(tied).vision_config.to_dict() | {"model_type": "qwen3_vl_moe"},
        tie_word_embeddings=tied,
        **TOKENS,
    )


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """The hub's config: the text model's fields at the top, positions under older names."""
    text = dict(config["text_config"])
    rope = text.pop("rope_parameters")
    for name in ("model_type", "layer_types", "base_config_key"):
        text.pop(name, None)
    sections = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    top = {name: value for name, value in config.items() if name != "text_config"}
    vision = {n: v for n, v in config["vision_config"].items() if n != "rope_parameters"}
    vision["model_type"] = config["model_type"]
    older = {"rope_scaling": sections, "rope_theta": rope["rope_theta"], "vision_config": vision}
    return {**text, **top, **older}


def expert_first(state: State) -> State:
    """The hub's experts: (experts, in, out) where transformers 5 has (experts, out, in)."""
    return {
        name: tensor.transpose(1, 2) if ".mlp.experts." in name else tensor
        for name, tensor in state.items()
    }


def natural(
    cls: str, *more: str, **given: object
) -> Callable[[hf.PretrainedConfig], hf.PretrainedConfig]:
    """The text model's numbers in the plain Qwen's config; text counts in one axis."""

    def config(vlm: hf.PretrainedConfig) -> hf.PretrainedConfig:
        text = vlm.text_config
        names = (*TEXT, "rms_norm_eps", "hidden_act", *more)
        kept = {name: getattr(text, name) for name in names if hasattr(text, name)}
        theta = text.rope_parameters["rope_theta"]
        return getattr(hf, cls)(
            **kept,
            **given,
            rope_parameters={"rope_type": "default", "rope_theta": theta},
            tie_word_embeddings=vlm.tie_word_embeddings,
        )

    return config


def patches(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture of 4 x 4 patches that becomes four tokens."""
    vision = vlm.config.vision_config
    size = 3 * vision.temporal_patch_size * vision.patch_size**2
    inputs = prompt(4, pixel_values=pixels(16, size), image_grid_thw=torch.tensor([[1, 4, 4]]))
    return {**inputs, "mm_token_type_ids": (inputs["input_ids"] == IMAGE).int()}


FAMILIES = [
    Family(
        "qwen2-vl",
        "Qwen2VLForConditionalGeneration",
        qwen2_vl,
        "Qwen2ForCausalLM",
        natural("Qwen2Config", *SLIDING, "layer_types"),
        patches,
        hub=HUB,
        hub_config=flat,
    ),
    Family(
        "qwen2.5-vl",
        "Qwen2_5_VLForConditionalGeneration",
        qwen2_5_vl,
        "Qwen2ForCausalLM",
        natural("Qwen2Config", *SLIDING, "layer_types"),
        patches,
        hub=HUB,
        hub_config=flat,
    ),
    Family(
        "qwen3-vl",
        "Qwen3VLForConditionalGeneration",
        qwen3_vl,
        "Qwen3ForCausalLM",
        natural("Qwen3Config", "head_dim", "attention_bias"),
        patches,
    ),
    Family(
        "qwen3-vl-moe",
        "Qwen3VLMoeForConditionalGeneration",
        qwen3_vl_moe,
        "Qwen3MoeForCausalLM",
        natural(
            "Qwen3MoeConfig",
            "head_dim",
            "attention_bias",
            "moe_intermediate_size",
            "num_experts",
            "num_experts_per_tok",
            "decoder_sparse_step",
            "mlp_only_layers",
            norm_topk_prob=True,
        ),
        patches,
        hub_convert=expert_first,
    ),
]
