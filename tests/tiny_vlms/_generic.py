"""Families that nobody listed: whatever transformers has, shrunk field by field."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import transformers as hf
from transformers import CONFIG_MAPPING

from tiny_vlms._family import IMAGE, TEXT, WINDOW, Family, Names
from tiny_vlms._qwen import natural as plain_qwen

LANGUAGE: dict[str, Any] = {
    **TEXT,
    "num_hidden_layers": 4,
    "ffn_hidden_size": 48,
    "head_dim": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "shared_intermediate_size": 24,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 100,
    "num_global_key_value_heads": 2,
    "global_head_dim": 16,
    "sliding_window": WINDOW,
    "index_head_dim": 8,
    "index_n_heads": 2,
    "index_topk": 4,
}
VISION: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "depth": 2,
    "num_heads": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "image_size": 16,
    "patch_size": 4,
    "embed_dim": 16,
    "out_hidden_size": 32,
    "projection_dim": 16,
    "num_position_embeddings": 16,
    "deepstack_visual_indexes": [0],
    "fullatt_block_indexes": [1],
}
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
PER_LAYER = ("layer_types", "mlp_layer_types", "per_layer_config")


def shrunk(values: dict[str, Any], small: dict[str, Any]) -> dict[str, Any]:
    """A config's fields with the sizes of `small`; parts of it by what they are for."""
    out = {}
    for name, value in values.items():
        if isinstance(value, dict) and "model_type" in value:
            language = re.search("text|llm|decoder|language", name) is not None
            out[name] = shrunk(value, LANGUAGE if language else VISION)
        elif name in small and value is not None:
            out[name] = small[name]
        elif re.search("(token_id|token_index|patch_id)$", name) and isinstance(value, int):
            out[name] = min(value, IMAGE)
        elif name not in PER_LAYER:
            out[name] = value
    return out


def small_config(kind: str, tied: bool = False, **changes: dict[str, Any]) -> hf.PretrainedConfig:
    """The default config of a model type, made small; changes by the part's name."""
    cls = CONFIG_MAPPING[kind]
    values = shrunk(cls().to_dict(), LANGUAGE)
    for part, fields in changes.items():
        target = values if part == "top" else values[part]
        target.update(fields)
    values["tie_word_embeddings"] = tied
    return cls.from_dict(copy.deepcopy(values))


def text_as_is(config: hf.PretrainedConfig) -> hf.PretrainedConfig:
    """The text config itself, with the VLM's tie."""
    text = copy.deepcopy(config.get_text_config(decoder=True))
    text.tie_word_embeddings = config.tie_word_embeddings
    return text


def no_image(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    raise NotImplementedError("families nobody listed are checked on texts alone")


NAMES: Names = (
    (r"^(model\.)?(language_model|text_model|decoder)\.(model\.)?(?!lm_head)", "model."),
    (r"^(language_model\.)?lm_head\.", "lm_head."),
)


def generic(
    kind: str,
    model: str,
    natural: str | None = None,
    natural_config: Callable[[hf.PretrainedConfig], hf.PretrainedConfig] = text_as_is,
    **changes: dict[str, Any],
) -> Family:
    """A family made of its default config."""

    def config(tied: bool) -> hf.PretrainedConfig:
        return small_config(kind, tied, **changes)

    return Family(kind, model, config, natural, natural_config, no_image, NAMES, ties=(False,))


def mrope(*sections: int) -> dict[str, Any]:
    """Rotary positions in three axes, for a text model of small heads."""
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(sections)}
    return {"text_config": {"rope_parameters": rope}}


VQ = {
    "embed_dim": 8,
    "num_embeddings": 10,
    "latent_channels": 8,
    "base_channels": 32,
    "channel_multiplier": [1],
    "num_res_blocks": 1,
    "projection_dim": 8,
    "image_token_embed_dim": 8,
}
AUDIO = {
    "encoder_attention_heads": 2,
    "d_model": 16,
    "encoder_layers": 1,
    "encoder_ffn_dim": 16,
    "output_dim": 32,
    "num_mel_bins": 16,
    "downsample_hidden_size": 8,
}
TOWER4 = {name: VISION[name] for name in (*SIZES, "num_key_value_heads", "head_dim", "patch_size")}
MOE = (
    "attention_bias",
    "moe_intermediate_size",
    "num_experts",
    "num_experts_per_tok",
    "decoder_sparse_step",
    "mlp_only_layers",
    "norm_topk_prob",
)

GENERIC = [
    generic("aria", "AriaForConditionalGeneration", "AriaTextForCausalLM"),
    replace(
        generic(
            "cohere2_vision",
            "Cohere2VisionForConditionalGeneration",
            "Cohere2ForCausalLM",
            top={"alignment_intermediate_size": 32},
        ),
        differs="the VLM's class leaves out Cohere 2's logit_scale",
        adjust=lambda logits: logits / 0.0625,
    ),
    generic("cosmos3_edge", "Cosmos3EdgeForConditionalGeneration", **mrope(4, 2, 2)),
    generic(
        "cosmos3_omni",
        "Cosmos3OmniForConditionalGeneration",
        "Qwen3ForCausalLM",
        plain_qwen("Qwen3Config", "head_dim", "attention_bias"),
    ),
    generic("deepseek_vl", "DeepseekVLForConditionalGeneration", "LlamaForCausalLM"),
    generic("exaone4_5", "Exaone4_5_ForConditionalGeneration", "Exaone4ForCausalLM"),
    generic("fuyu", "FuyuForCausalLM", "PersimmonForCausalLM"),
    generic(
        "gemma4",
        "Gemma4ForConditionalGeneration",
        "Gemma4ForCausalLM",
        top={"vision_config": {**TOWER4, "position_embedding_size": 16}},
    ),
    generic(
        "gemma4_unified",
        "Gemma4UnifiedForConditionalGeneration",
        "Gemma4UnifiedForCausalLM",
        top={"vision_config": {"mm_embed_dim": 16, "mm_posemb_size": 8, "output_proj_dims": 16}},
    ),
    generic("glm46v", "Glm46VForConditionalGeneration", **mrope(2, 1, 1)),
    generic("got_ocr2", "GotOcr2ForConditionalGeneration", "Qwen2ForCausalLM"),
    generic("granite_docling", "GraniteDoclingForConditionalGeneration"),
    generic(
        "hyperclovax_vision_v2",
        "HyperCLOVAXVisionV2ForConditionalGeneration",
        "HyperCLOVAXForCausalLM",
    ),
    generic("janus", "JanusForConditionalGeneration", "LlamaForCausalLM", vq_config=VQ),
    generic("lfm3_vl", "Lfm3VlForConditionalGeneration", "Lfm3ForCausalLM"),
    generic("lighton_ocr", "LightOnOcrForConditionalGeneration", "Qwen3ForCausalLM"),
    generic("llava_next_video", "LlavaNextVideoForConditionalGeneration", "LlamaForCausalLM"),
    generic("minicpm_ocr", "MiniCPMOcrForConditionalGeneration", "Qwen3_5ForCausalLM"),
    generic("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", "Qwen3_5ForCausalLM"),
    generic("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3VLForCausalLM"),
    generic("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", **mrope(2, 3, 3)),
    generic("qianfan_ocr", "QianfanOCRForConditionalGeneration", "Qwen3ForCausalLM"),
    generic("qwen3_5", "Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"),
    generic("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
    generic(
        "qwen3_omni_moe_thinker",
        "Qwen3OmniMoeThinkerForConditionalGeneration",
        "Qwen3MoeForCausalLM",
        plain_qwen("Qwen3MoeConfig", *MOE, head_dim=8),
        audio_config=AUDIO,
    ),
    generic("video_llama_3", "VideoLlama3ForConditionalGeneration", "Qwen2ForCausalLM"),
    generic("video_llava", "VideoLlavaForConditionalGeneration", "LlamaForCausalLM"),
    generic("vipllava", "VipLlavaForConditionalGeneration", "LlamaForCausalLM"),
]
