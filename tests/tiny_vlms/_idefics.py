"""Hugging Face's own families, whose text model stands under `text_model`."""

from __future__ import annotations

import torch
import transformers as hf

from tiny_vlms._family import IMAGE, WINDOW, Family, Names, pixels, prompt, same_text, text

NAMES: Names = ((r"^model\.text_model\.", "model."), (r"^lm_head\.", "lm_head."))
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}


def idefics2(tied: bool) -> hf.PretrainedConfig:
    return hf.Idefics2Config(
        text_config=text("mistral", tied, head_dim=8, sliding_window=WINDOW),
        vision_config=VISION,
        perceiver_config={
            "hidden_size": 32,
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": 2,
            "resampler_head_dim": 8,
            "num_key_value_heads": 1,
        },
        image_token_id=IMAGE,
        tie_word_embeddings=tied,
    )


def idefics3(cls: type):
    def config(tied: bool) -> hf.PretrainedConfig:
        rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}
        return cls(
            text_config=text("llama", tied, rope_parameters=rope, attention_bias=True),
            vision_config=VISION,
            image_token_id=IMAGE,
            scale_factor=2,
            tie_word_embeddings=tied,
        )

    return config


def masked(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture of 16 x 16 in four tokens, with the mask of its pixels."""
    mask = torch.ones(1, 1, 16, 16, dtype=torch.long)
    return prompt(4, pixel_values=pixels(1, 1, 3, 16, 16), pixel_attention_mask=mask)


FAMILIES = [
    Family(
        "idefics2",
        "Idefics2ForConditionalGeneration",
        idefics2,
        "MistralForCausalLM",
        same_text("MistralConfig"),
        masked,
        NAMES,
    ),
    Family(
        "idefics3",
        "Idefics3ForConditionalGeneration",
        idefics3(hf.Idefics3Config),
        "LlamaForCausalLM",
        same_text("LlamaConfig"),
        masked,
        NAMES,
    ),
    Family(
        "smolvlm",
        "SmolVLMForConditionalGeneration",
        idefics3(hf.SmolVLMConfig),
        "LlamaForCausalLM",
        same_text("LlamaConfig"),
        masked,
        NAMES,
    ),
]
