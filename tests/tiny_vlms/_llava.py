"""Families that put a stand-alone text model behind a projector."""

from __future__ import annotations

import torch
import transformers as hf

from tiny_vlms._family import (
    EOS,
    IMAGE,
    PAD,
    VIDEO,
    WINDOW,
    Family,
    Names,
    four,
    pixels,
    prompt,
    same_text,
    text,
)

CLIP = {
    "model_type": "clip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
    "projection_dim": 16,
}
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
PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "head_dim": 8,
    "image_size": 16,
    "patch_size": 4,
}
HUB: Names = (
    (r"^model\.language_model\.", "language_model.model."),
    (r"^lm_head\.", "language_model.lm_head."),
    (r"^model\.vision_tower\.", "vision_tower.vision_model."),
    (r"^model\.", ""),
)


def llava(tied: bool) -> hf.PretrainedConfig:
    return hf.LlavaConfig(
        text_config=text("llama", tied),
        vision_config=CLIP,
        image_token_index=IMAGE,
        image_seq_length=4,
        tie_word_embeddings=tied,
    )


def qwen2_text(tied: bool) -> dict:
    sliding = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
    return text("qwen2", tied, **sliding)


def internvl(kind: str):
    def config(tied: bool) -> hf.PretrainedConfig:
        inner = qwen2_text(tied) if kind == "qwen2" else text("qwen3", tied, head_dim=16)
        return hf.InternVLConfig(
            text_config=inner,
            vision_config={
                "hidden_size": 16,
                "intermediate_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "image_size": 16,
                "patch_size": 4,
            },
            image_token_id=IMAGE,
            image_seq_length=4,
            pad_token_id=PAD,
            eos_token_id=EOS,
            tie_word_embeddings=tied,
        )

    return config


def llava_next(tied: bool) -> hf.PretrainedConfig:
    return hf.LlavaNextConfig(
        text_config=text("mistral", tied, head_dim=8, sliding_window=WINDOW),
        vision_config=CLIP,
        image_token_index=IMAGE,
        image_seq_length=4,
        image_grid_pinpoints=[[16, 16], [32, 16]],
        tie_word_embeddings=tied,
    )


def llava_onevision(tied: bool) -> hf.PretrainedConfig:
    return hf.LlavaOnevisionConfig(
        text_config=qwen2_text(tied),
        vision_config={**SIGLIP, "patch_size": 8},
        image_token_index=IMAGE,
        video_token_index=VIDEO,
        image_grid_pinpoints=[[16, 16], [32, 16]],
        tie_word_embeddings=tied,
    )


def llava_pixtral(tied: bool) -> hf.PretrainedConfig:
    return hf.LlavaConfig(
        text_config=text("mistral", tied, head_dim=16, sliding_window=None),
        vision_config={**PIXTRAL, "patch_size": 8},
        image_token_index=IMAGE,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        tie_word_embeddings=tied,
    )


def mistral3(tied: bool) -> hf.PretrainedConfig:
    return hf.Mistral3Config(
        text_config=text("mistral", tied, head_dim=16, sliding_window=None),
        vision_config=PIXTRAL,
        image_token_index=IMAGE,
        tie_word_embeddings=tied,
    )


def aya_vision(tied: bool) -> hf.PretrainedConfig:
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    scale = {"logit_scale": 0.25, "sliding_window": WINDOW, "layer_types": kinds}
    return hf.AyaVisionConfig(
        text_config=text("cohere2", tied, **scale, num_hidden_layers=3),
        vision_config=SIGLIP,
        image_token_index=IMAGE,
        tie_word_embeddings=tied,
    )


def tiles(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture as a whole and as one tile: 4 + 4 tokens, and 2 that end its rows."""
    pictures = pixels(1, 2, 3, 16, 16)
    return prompt(10, pixel_values=pictures, image_sizes=torch.tensor([[16, 16]]))


def sized(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture of 16 x 16 in four tokens, its size beside it."""
    return {**four(vlm), "image_sizes": torch.tensor([[16, 16]])}


PLAIN_HUB: Names = (*HUB[:2], (r"^model\.", ""))

FAMILIES = [
    Family(
        "llava",
        "LlavaForConditionalGeneration",
        llava,
        "LlamaForCausalLM",
        same_text("LlamaConfig"),
        four,
        hub=HUB,
    ),
    Family(
        "internvl",
        "InternVLForConditionalGeneration",
        internvl("qwen2"),
        "Qwen2ForCausalLM",
        same_text("Qwen2Config"),
        four,
        hub=PLAIN_HUB,
    ),
    Family(
        "internvl-qwen3",
        "InternVLForConditionalGeneration",
        internvl("qwen3"),
        "Qwen3ForCausalLM",
        same_text("Qwen3Config"),
        four,
        hub=PLAIN_HUB,
    ),
    Family(
        "llava-next",
        "LlavaNextForConditionalGeneration",
        llava_next,
        "MistralForCausalLM",
        same_text("MistralConfig"),
        tiles,
        hub=HUB,
    ),
    Family(
        "llava-onevision",
        "LlavaOnevisionForConditionalGeneration",
        llava_onevision,
        "Qwen2ForCausalLM",
        same_text("Qwen2Config"),
        tiles,
        hub=HUB,
    ),
    Family(
        "llava-pixtral",
        "LlavaForConditionalGeneration",
        llava_pixtral,
        "MistralForCausalLM",
        same_text("MistralConfig"),
        sized,
        hub=PLAIN_HUB,
    ),
    Family(
        "mistral3",
        "Mistral3ForConditionalGeneration",
        mistral3,
        "MistralForCausalLM",
        same_text("MistralConfig"),
        sized,
        hub=PLAIN_HUB,
    ),
    Family(
        "aya-vision",
        "AyaVisionForConditionalGeneration",
        aya_vision,
        "Cohere2ForCausalLM",
        same_text("Cohere2Config"),
        four,
        hub=HUB,
        differs="the VLM's class leaves out Cohere 2's logit_scale",
        adjust=lambda logits: logits / 0.25,
    ),
]
