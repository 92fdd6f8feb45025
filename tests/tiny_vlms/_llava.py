"""Families that put a stand-alone text model behind a projector."""

from __future__ import annotations

import transformers as hf
from tiny_vlms._family import (
    EOS,
    IMAGE,
    PAD,
    TEXT,
    WINDOW,
    Family,
    Names,
    pixels,
    prompt,
    same_text,
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
HUB: Names = (
    (r"^model\.language_model\.", "language_model.model."),
    (r"^lm_head\.", "language_model.lm_head."),
    (r"^model\.vision_tower\.", "vision_tower.vision_model."),
    (r"^model\.", ""),
)


def text(kind: str, tied: bool, **more: object) -> dict:
    return {**TEXT, "model_type": kind, "tie_word_embeddings": tied, **more}


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


def four(vlm: hf.PreTrainedModel) -> dict:
    """A picture of 16 x 16 that becomes four tokens."""
    return prompt(4, pixel_values=pixels(1, 3, 16, 16))


INTERNVL_HUB: Names = (*HUB[:2], (r"^model\.", ""))

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
        hub=INTERNVL_HUB,
    ),
    Family(
        "internvl-qwen3",
        "InternVLForConditionalGeneration",
        internvl("qwen3"),
        "Qwen3ForCausalLM",
        same_text("Qwen3Config"),
        four,
        hub=INTERNVL_HUB,
    ),
]
