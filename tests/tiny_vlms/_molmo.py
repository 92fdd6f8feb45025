"""Molmo 2, whose text model is Qwen 3's or Olmo 3's, with rows of its own for the image."""

from __future__ import annotations

import re
from typing import Any

import torch
import transformers as hf

from tiny_vlms._family import (
    TEXT,
    VOCABULARY,
    Family,
    Names,
    State,
    from_text,
    pixels,
    prompt,
    rename,
)

PATCH = VOCABULARY + 2
"""The image's token: one of the rows that the head has not."""
YARN = {
    "rope_type": "yarn",
    "rope_theta": 5e5,
    "factor": 8.0,
    "original_max_position_embeddings": 32,
}
PLAIN = {"rope_type": "default", "rope_theta": 5e5}


def molmo2(**text: object):
    def config(tied: bool) -> hf.PretrainedConfig:
        return hf.Molmo2Config(
            text_config={**TEXT, "head_dim": 8, "additional_vocab_size": 8, **text},
            vision_config={
                "hidden_size": 16,
                "intermediate_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 8,
                "image_size": [16, 16],
                "patch_size": 4,
            },
            adapter_config={
                "hidden_size": 16,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 8,
                "intermediate_size": 24,
                "text_hidden_size": 32,
                "vision_feature_layer": [1, 0],
            },
            image_start_token_id=VOCABULARY,
            image_end_token_id=VOCABULARY + 1,
            image_patch_id=PATCH,
            low_res_image_start_token_id=VOCABULARY + 3,
            frame_start_token_id=VOCABULARY + 4,
            frame_end_token_id=VOCABULARY + 5,
            tie_word_embeddings=tied,
        )

    return config


def base_rows(state: State, config: hf.PretrainedConfig) -> State:
    """The rows that the head has too."""
    name = "model.embed_tokens.weight"
    return {**state, name: state[name][:VOCABULARY]}


def olmo_norms(state: State, config: hf.PretrainedConfig) -> State:
    """Norms after attention and MLP, which Olmo 3 names for what they follow."""
    patterns = (
        (r"post_attention_layernorm", "post_feedforward_layernorm"),
        (r"input_layernorm", "post_attention_layernorm"),
    )
    return {rename(name, patterns): t for name, t in base_rows(state, config).items()}


HUB: Names = (
    (r"\.input_layernorm\.", ".attn_norm."),
    (r"\.post_attention_layernorm\.", ".ff_norm."),
    (r"\.self_attn\.o_proj\.", ".self_attn.attn_out."),
    (r"(language_model\..*)\.mlp\.down_proj\.", r"\1.mlp.ff_out."),
    (r"^model\.language_model\.layers\.", "model.transformer.blocks."),
    (r"^model\.language_model\.norm\.", "model.transformer.ln_f."),
    (r"^model\.vision_tower\.layers\.", "model.vision_backbone.image_vit.transformer.resblocks."),
    (r"^model\.vision_tower\.", "model.vision_backbone.image_vit."),
    (r"^model\.multi_modal_projector\.", "model.vision_backbone."),
    (r"resblocks\.(\d+)\.layer_norm1\.", r"resblocks.\1.attention_norm."),
    (r"resblocks\.(\d+)\.layer_norm2\.", r"resblocks.\1.ffn_norm."),
    (r"resblocks\.(\d+)\.mlp\.fc([12])\.", r"resblocks.\1.feed_forward.w\2."),
    (r"resblocks\.(\d+)\.self_attn\.([qkv])_proj\.", r"resblocks.\1.attention.w\2."),
    (r"resblocks\.(\d+)\.self_attn\.attn_out\.", r"resblocks.\1.attention.wo."),
    (r"image_pooling_2d\.([qkvo])_proj\.", r"image_pooling_2d.w\1."),
    (r"image_projector\.gate_proj\.", "image_projector.w1."),
    (r"image_projector\.down_proj\.", "image_projector.w2."),
    (r"image_projector\.up_proj\.", "image_projector.w3."),
)


def fused(state: State) -> State:
    """The hub's fused matrices: query, key, value; up, gate; and the table in two."""
    hub = dict(state)
    table = hub.pop("model.language_model.embed_tokens.weight")
    hub["model.transformer.wte.embedding"] = table[:VOCABULARY]
    hub["model.transformer.wte.new_embedding"] = table[VOCABULARY:]
    for name in state:
        block = re.match(r"(model\.transformer\.blocks\.\d+)\.mlp\.up_proj\.weight", name)
        if block is not None:
            at = block[1]
            pair = [hub.pop(f"{at}.mlp.{part}_proj.weight") for part in ("up", "gate")]
            hub[f"{at}.mlp.ff_proj.weight"] = torch.cat(pair)
            three = [hub.pop(f"{at}.self_attn.{part}_proj.weight") for part in "qkv"]
            hub[f"{at}.self_attn.att_proj.weight"] = torch.cat(three)
    return hub


def remote(config: dict[str, Any]) -> dict[str, Any]:
    """The hub's config: the tower under another name, and code of its own beside."""
    hub = {**config, "vit_config": config["vision_config"]}
    del hub["vision_config"]
    code = "modeling_molmo2.Molmo2ForConditionalGeneration"
    hub["auto_map"] = {
        "AutoConfig": "configuration_molmo2.Molmo2Config",
        "AutoModelForImageTextToText": code,
    }
    return hub


def crop(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """One crop of 16 patches, pooled four by four into four tokens."""
    corners = torch.tensor([0, 2, 8, 10])[:, None] + torch.tensor([0, 1, 4, 5])
    inputs = prompt(
        4,
        PATCH,
        pixel_values=pixels(1, 16, 48),
        image_token_pooling=corners,
        image_grids=torch.tensor([[2, 2, 0, 0]]),
    )
    return {**inputs, "mm_token_type_ids": (inputs["input_ids"] == PATCH).int()}


FIELDS = (*TEXT, "rms_norm_eps", "hidden_act", "attention_bias")

FAMILIES = [
    Family(
        "molmo2-qwen3",
        "Molmo2ForConditionalGeneration",
        molmo2(rope_parameters=PLAIN),
        "Qwen3ForCausalLM",
        from_text("Qwen3Config", FIELDS, head_dim=8, rope_parameters=PLAIN),
        crop,
        convert=base_rows,
        hub=HUB,
        hub_convert=fused,
        hub_config=remote,
        ties=(False,),
    ),
    Family(
        "molmo2-olmo3",
        "Molmo2ForConditionalGeneration",
        molmo2(
            qk_norm_type="olmo",
            norm_after=True,
            rope_parameters=YARN,
            rope_scaling_layers=[1],
        ),
        "Olmo3ForCausalLM",
        from_text(
            "Olmo3Config",
            FIELDS,
            layer_types=["sliding_attention", "full_attention"],
            # Molmo 2 has no window; one as wide as the texts are long does the same.
            sliding_window=TEXT["max_position_embeddings"],
            rope_parameters={"sliding_attention": PLAIN, "full_attention": YARN},
        ),
        crop,
        convert=olmo_norms,
        hub=HUB,
        hub_convert=fused,
        hub_config=remote,
        ties=(False,),
    ),
]
