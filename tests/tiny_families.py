"""Tiny random VLMs of several families, each with a text model of the same shape."""

from __future__ import annotations

import transformers as hf
from tiny_pair import llava_config, text_config

TEXT = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SIGLIP = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}


def llava(tied: bool) -> hf.PreTrainedModel:
    config = llava_config(text_config(tie_word_embeddings=tied))
    return hf.LlavaForConditionalGeneration(config)


def qwen2_vl(tied: bool) -> hf.PreTrainedModel:
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e6}
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 4}
    config = hf.Qwen2VLConfig(
        text_config={**TEXT, "rope_parameters": rope, "tie_word_embeddings": tied},
        vision_config=vision,
        tie_word_embeddings=tied,
        image_token_id=5,
        video_token_id=6,
        vision_start_token_id=7,
        vision_end_token_id=8,
    )
    return hf.Qwen2VLForConditionalGeneration(config)


def smolvlm(tied: bool) -> hf.PreTrainedModel:
    text = {**TEXT, "model_type": "llama", "tie_word_embeddings": tied}
    config = hf.SmolVLMConfig(
        text_config=text,
        vision_config=SIGLIP,
        image_token_id=5,
        pad_token_id=0,
        tie_word_embeddings=tied,
    )
    return hf.SmolVLMForConditionalGeneration(config)


def gemma3(tied: bool) -> hf.PreTrainedModel:
    config = hf.Gemma3Config(
        text_config={**TEXT, "head_dim": 8},
        vision_config=SIGLIP,
        image_token_index=5,
        boi_token_index=6,
        eoi_token_index=7,
        tie_word_embeddings=tied,
    )
    return hf.Gemma3ForConditionalGeneration(config)
