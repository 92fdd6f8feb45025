"""GLM's families: rotary positions on half of each head, in three axes, in pairs."""

from __future__ import annotations

import re

import torch
import transformers as hf

from tiny_vlms._family import END, IMAGE, START, TEXT, VIDEO, Family, State, from_text
from tiny_vlms._qwen import patches

TOKENS = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "image_start_token_id": START,
    "image_end_token_id": END,
    "video_start_token_id": 95,
    "video_end_token_id": 96,
}
VISION = {
    "depth": 2,
    "hidden_size": 16,
    "out_hidden_size": 32,
    "intermediate_size": 24,
    "num_heads": 2,
    "patch_size": 4,
    "image_size": 16,
}
WIDE = {**TEXT, "num_attention_heads": 2, "num_key_value_heads": 1}
HALF = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}


def glm4v(tied: bool) -> hf.PretrainedConfig:
    return hf.Glm4vConfig(
        text_config={**WIDE, "rope_parameters": {**HALF, "mrope_section": [2, 1, 1]}},
        vision_config=VISION,
        tie_word_embeddings=tied,
        **TOKENS,
    )


def glm4v_moe(tied: bool) -> hf.PretrainedConfig:
    return hf.Glm4vMoeConfig(
        text_config={
            **WIDE,
            "rope_parameters": {**HALF, "mrope_section": [2, 1, 1]},
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.5,
            "tie_word_embeddings": tied,
        },
        vision_config=VISION,
        tie_word_embeddings=tied,
        **TOKENS,
    )


def per_expert(state: State) -> State:
    """The hub's experts: one gate, one up and one down matrix each."""
    hub = {}
    for name, tensor in state.items():
        at = re.match(r"(.*\.mlp\.experts)\.(gate_up_proj|down_proj)$", name)
        if at is None:
            hub[name] = tensor
            continue
        for expert, matrix in enumerate(tensor):
            if at[2] == "down_proj":
                hub[f"{at[1]}.{expert}.down_proj.weight"] = matrix
            else:
                gate, up = torch.chunk(matrix, 2)
                hub[f"{at[1]}.{expert}.gate_proj.weight"] = gate
                hub[f"{at[1]}.{expert}.up_proj.weight"] = up
    return hub


FAMILIES = [
    Family(
        "glm4v",
        "Glm4vForConditionalGeneration",
        glm4v,
        "Glm4ForCausalLM",
        from_text(
            "Glm4Config",
            (*TEXT, "rms_norm_eps", "hidden_act"),
            head_dim=16,
            attention_bias=True,
            rope_parameters=HALF,
        ),
        patches,
    ),
    Family(
        "glm4v-moe",
        "Glm4vMoeForConditionalGeneration",
        glm4v_moe,
        "Glm4MoeForCausalLM",
        from_text(
            "Glm4MoeConfig",
            (
                *TEXT,
                "rms_norm_eps",
                "hidden_act",
                "attention_bias",
                "n_routed_experts",
                "n_shared_experts",
                "num_experts_per_tok",
                "moe_intermediate_size",
                "first_k_dense_replace",
                "routed_scaling_factor",
                "n_group",
                "topk_group",
                "norm_topk_prob",
            ),
            head_dim=16,
            use_qk_norm=False,
            rope_parameters=HALF,
        ),
        patches,
        hub_convert=per_expert,
    ),
]
