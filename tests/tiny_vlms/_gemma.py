"""Google's families: scaled embeddings, soft-caps, norms around zero."""

from __future__ import annotations

import transformers as hf
from tiny_vlms._family import (
    END,
    IMAGE,
    START,
    TEXT,
    WINDOW,
    Family,
    Names,
    pixels,
    prompt,
    same_text,
)
from tiny_vlms._llava import HUB

SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
    "vision_use_head": False,
}
BOTH = ["sliding_attention", "full_attention"]


def gemma3(tied: bool) -> hf.PretrainedConfig:
    return hf.Gemma3Config(
        text_config={
            **TEXT,
            "head_dim": 8,
            "query_pre_attn_scalar": 12,
            "sliding_window": WINDOW,
            "layer_types": BOTH,
            "attn_logit_softcapping": 4.0,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            },
        },
        vision_config=SIGLIP,
        mm_tokens_per_image=4,
        image_token_index=IMAGE,
        boi_token_index=START,
        eoi_token_index=END,
        tie_word_embeddings=tied,
    )


def typed(vlm: hf.PreTrainedModel) -> dict:
    """A picture of 16 x 16 in four tokens, which are told by their type."""
    inputs = prompt(4, pixel_values=pixels(1, 3, 16, 16))
    return {**inputs, "token_type_ids": (inputs["input_ids"] == IMAGE).int()}


GEMMA_HUB: Names = HUB

FAMILIES = [
    Family(
        "gemma3",
        "Gemma3ForConditionalGeneration",
        gemma3,
        "Gemma3ForCausalLM",
        same_text("Gemma3TextConfig"),
        typed,
        hub=GEMMA_HUB,
    ),
]
