"""Meta's families: Llama 4, Llama 3.2 Vision (Mllama) and Perception LM."""

from __future__ import annotations

import re

import torch
import transformers as hf
from transformers.modeling_outputs import MoeCausalLMOutputWithPast

from tiny_vlms._family import (
    END,
    IMAGE,
    START,
    TEXT,
    VIDEO,
    VOCABULARY,
    WINDOW,
    Family,
    Names,
    State,
    four,
    from_text,
    pixels,
    prompt,
    same_text,
    text,
)
from tiny_vlms._llava import PLAIN_HUB

if not hasattr(MoeCausalLMOutputWithPast, "image_outputs"):
    # Llama 4's forward in transformers 5.24 reads this from its text model's output, which has
    # no such field: no call of the VLM returns.
    MoeCausalLMOutputWithPast.image_outputs = None

CROSS = 1
"""The Mllama block that attends to the image."""


def llama4(tied: bool) -> hf.PretrainedConfig:
    return hf.Llama4Config(
        text_config={
            **TEXT,
            "num_hidden_layers": 4,
            "head_dim": 8,
            "intermediate_size_mlp": 40,
            "num_local_experts": 4,
            "interleave_moe_layer_step": 2,
            "no_rope_layers": [1, 1, 1, 0],
            "attention_chunk_size": WINDOW,
            "floor_scale": 4,
            "tie_word_embeddings": tied,
        },
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 16,
            "patch_size": 4,
            "vision_output_dim": 32,
            "projector_input_dim": 32,
            "projector_output_dim": 32,
        },
        boi_token_index=START,
        eoi_token_index=END,
        image_token_index=IMAGE,
        tie_word_embeddings=tied,
    )


def mllama(tied: bool) -> hf.PretrainedConfig:
    return hf.MllamaConfig(
        text_config={
            **TEXT,
            "num_hidden_layers": 4,
            "cross_attention_layers": [CROSS],
            "tie_word_embeddings": tied,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 5e5,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        },
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "image_size": 16,
            "patch_size": 8,
            "vision_output_dim": 32,
            "max_num_tiles": 4,
            "intermediate_layers_indices": [0],
        },
        image_token_index=VOCABULARY,
        tie_word_embeddings=tied,
    )


def perception_lm(tied: bool) -> hf.PretrainedConfig:
    return hf.PerceptionLMConfig(
        text_config=text("llama", tied),
        # Its own tower is timm's; another that gives patches of one size stands in.
        vision_config={
            "model_type": "clip_vision_model",
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 16,
            "patch_size": 8,
            "model_args": {"embed_dim": 16},
        },
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        tie_word_embeddings=tied,
    )


def llama3_config(config: hf.PretrainedConfig) -> hf.PretrainedConfig:
    """Llama's config for the blocks of an Mllama that read text."""
    fields = (*TEXT, "rope_parameters", "rms_norm_eps", "hidden_act")
    llama = from_text("LlamaConfig", fields)(config)
    llama.num_hidden_layers -= len(config.text_config.cross_attention_layers)
    return llama


def text_blocks(state: State, config: hf.PretrainedConfig) -> State:
    """The blocks of text counted on their own, and the rows that the head has."""
    kept = {}
    for name, tensor in state.items():
        block = re.match(r"model\.layers\.(\d+)\.(.*)", name)
        if block is None:
            rows = slice(VOCABULARY) if name == "model.embed_tokens.weight" else slice(None)
            kept[name] = tensor[rows]
        elif int(block[1]) != CROSS:
            at = int(block[1]) - (int(block[1]) > CROSS)
            kept[f"model.layers.{at}.{block[2]}"] = tensor
    return kept


def tiled(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture of one tile out of four, seen by all tokens from its own on."""
    inputs = prompt(1, VOCABULARY, pixel_values=pixels(1, 1, 4, 3, 16, 16))
    seen = torch.zeros(1, inputs["input_ids"].shape[1], 1, 4, dtype=torch.long)
    seen[:, 4:, :, 0] = 1
    return {
        **inputs,
        "aspect_ratio_ids": torch.tensor([[1]]),
        "aspect_ratio_mask": torch.tensor([[[1, 0, 0, 0]]]),
        "cross_attention_mask": seen,
    }


def one_more(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture of one tile in four tokens."""
    return prompt(4, pixel_values=pixels(1, 1, 3, 16, 16))


LLAMA4_NAMES: Names = (
    (r"^language_model\.model\.", "model."),
    (r"^language_model\.lm_head\.", "lm_head."),
)

FAMILIES = [
    Family(
        "llama4",
        "Llama4ForConditionalGeneration",
        llama4,
        "Llama4ForCausalLM",
        same_text("Llama4TextConfig"),
        four,
        LLAMA4_NAMES,
    ),
    Family(
        "mllama",
        "MllamaForConditionalGeneration",
        mllama,
        "LlamaForCausalLM",
        llama3_config,
        tiled,
        convert=text_blocks,
        hub=PLAIN_HUB,
        ties=(False,),
    ),
    Family(
        "perception-lm",
        "PerceptionLMForConditionalGeneration",
        perception_lm,
        "LlamaForCausalLM",
        same_text("LlamaConfig"),
        one_more,
    ),
]
