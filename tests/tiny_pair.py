"""A random Llama and a random Llava of the same shapes, as Hugging Face folders."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedTokenizerFast,
    SiglipVisionConfig,
)

SPECIAL = ["<pad>", "<bos>", "<end>", "<user>", "<assistant>", "<image>"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'user' %}<user>{% else %}<assistant>{% endif %}"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for p in m['content'] %}{% if p['type'] == 'image' %}<image>{% else %}{{ p['text'] }}"
    "{% endif %}{% endfor %}{% endif %}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tiny_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with chat markers, 262 tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<end>",
        pad_token="<pad>",
        additional_special_tokens=SPECIAL[3:],
        model_max_length=128,
    )
    fast.chat_template = template
    return fast


def text_config(**changes: object) -> LlamaConfig:
    values: dict = {
        "vocab_size": 262,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    return LlamaConfig(**{**values, **changes})


def llava_config(text: LlamaConfig, **changes: object) -> LlavaConfig:
    vision = SiglipVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=16,
        patch_size=8,
        vision_use_head=False,
    )
    values: dict = {
        "image_token_index": SPECIAL.index("<image>"),
        "image_seq_length": 4,
        "vision_feature_select_strategy": "full",
        "vision_feature_layer": -1,
        "tie_word_embeddings": text.tie_word_embeddings,
    }
    return LlavaConfig(vision_config=vision, text_config=text, **{**values, **changes})


def write_pair(
    root: Path, seed: int = 0, vlm_text: dict | None = None, **text: object
) -> tuple[Path, Path]:
    """Folders `reference` and `vlm` under root, with unlike random weights of std 0.1."""
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    torch.manual_seed(seed)
    tokenizer = tiny_tokenizer()
    reference = LlamaForCausalLM(text_config(**text))
    vlm = LlavaForConditionalGeneration(llava_config(text_config(**{**text, **(vlm_text or {})})))
    for model, name in ((reference, "reference"), (vlm, "vlm")):
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.1)
        model.generation_config.eos_token_id = 2
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    SiglipImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(root / "vlm")
    return root / "reference", root / "vlm"
