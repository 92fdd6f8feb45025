"""Google's families: scaled embeddings, soft-caps, norms around zero."""

from __future__ import annotations

import torch
import transformers as hf

from tiny_vlms._family import (
    END,
    IMAGE,
    START,
    TEXT,
    WINDOW,
    Family,
    four,
    pixels,
    prompt,
    same_text,
    text,
)
from tiny_vlms._llava import HUB, SIGLIP

CAP = 30.0
BOTH = ["sliding_attention", "full_attention"]


def gemma3_capped(tied: bool) -> hf.PretrainedConfig:
    config = gemma3(tied)
    config.text_config.final_logit_softcapping = CAP
    return config


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


def paligemma(kind: str):
    soft = {
        "query_pre_attn_scalar": 12,
        "sliding_window": WINDOW,
        "layer_types": BOTH,
        "final_logit_softcapping": 3.0,
        "attn_logit_softcapping": 4.0,
    }

    def config(tied: bool) -> hf.PretrainedConfig:
        more = soft if kind == "gemma2" else {}
        return hf.PaliGemmaConfig(
            text_config=text(kind, tied, head_dim=8, use_bidirectional_attention=True, **more),
            vision_config={**SIGLIP, "patch_size": 8},
            image_token_index=IMAGE,
            projection_dim=32,
            hidden_size=32,
            vocab_size=100,
            tie_word_embeddings=tied,
        )

    return config


FAMILIES = [
    Family(
        "gemma3",
        "Gemma3ForConditionalGeneration",
        gemma3,
        "Gemma3ForCausalLM",
        same_text("Gemma3TextConfig"),
        typed,
        hub=HUB,
    ),
    Family(
        "gemma3-capped",
        "Gemma3ForConditionalGeneration",
        gemma3_capped,
        "Gemma3ForCausalLM",
        same_text("Gemma3TextConfig"),
        typed,
        hub=HUB,
        differs="the VLM's class leaves out Gemma 3's cap on the final logits",
        adjust=lambda logits: CAP * torch.atanh(logits / CAP),
    ),
    Family(
        "paligemma",
        "PaliGemmaForConditionalGeneration",
        paligemma("gemma"),
        "GemmaForCausalLM",
        same_text("GemmaConfig"),
        four,
        hub=HUB,
    ),
    Family(
        "paligemma2",
        "PaliGemmaForConditionalGeneration",
        paligemma("gemma2"),
        "Gemma2ForCausalLM",
        same_text("Gemma2Config"),
        four,
        hub=HUB,
    ),
]
