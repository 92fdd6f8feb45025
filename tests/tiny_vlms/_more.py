"""Ovis 2 and LFM2-VL."""

from __future__ import annotations

import torch
import transformers as hf

from tiny_vlms._family import IMAGE, Family, Names, four, pixels, prompt, same_text, text
from tiny_vlms._llava import SIGLIP, qwen2_text


def ovis2(tied: bool) -> hf.PretrainedConfig:
    return hf.Ovis2Config(
        text_config=qwen2_text(tied),
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 16,
            "patch_size": 4,
            "hidden_stride": 2,
            "vocab_size": 30,
        },
        image_token_id=IMAGE,
        visual_indicator_token_ids=[92, 93, 94, 95, 96],
        vocab_size=100,
        hidden_size=32,
        tie_word_embeddings=tied,
    )


def lfm2_vl(tied: bool) -> hf.PretrainedConfig:
    kinds = ["conv", "full_attention", "conv"]
    more = {"num_hidden_layers": 3, "layer_types": kinds, "block_multiple_of": 8, "conv_bias": True}
    return hf.Lfm2VlConfig(
        text_config=text("lfm2", tied, **more),
        vision_config={
            **{k: v for k, v in SIGLIP.items() if k != "image_size"},
            "model_type": "siglip2_vision_model",
            "num_patches": 16,
        },
        image_token_id=IMAGE,
        projector_hidden_size=24,
        tie_word_embeddings=tied,
    )


def shaped(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture of 4 x 4 patches in four tokens."""
    return prompt(
        4,
        pixel_values=pixels(1, 16, 48),
        spatial_shapes=torch.tensor([[4, 4]]),
        pixel_attention_mask=torch.ones(1, 16, dtype=torch.long),
    )


LFM2_HUB: Names = ((r"^model\.vision_tower\.", "model.vision_tower.vision_model."),)

FAMILIES = [
    Family(
        "ovis2",
        "Ovis2ForConditionalGeneration",
        ovis2,
        "Qwen2ForCausalLM",
        same_text("Qwen2Config"),
        four,
    ),
    Family(
        "lfm2-vl",
        "Lfm2VlForConditionalGeneration",
        lfm2_vl,
        "Lfm2ForCausalLM",
        same_text("Lfm2Config"),
        shaped,
        hub=LFM2_HUB,
    ),
]
