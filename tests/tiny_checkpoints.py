"""Model folders of a few kilobytes, written without transformers: Llama-like, or inside a VLM."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

# Where the families keep the language model on disk: prefix of its body, of its head, of the rest.
LAYOUTS = {
    "lm": ("model.", "lm_head.", None),
    "llava": ("language_model.model.", "language_model.lm_head.", "vision_tower."),
    "qwen2_vl": ("model.", "lm_head.", "visual."),
    "qwen3_vl": ("model.language_model.", "lm_head.", "model.visual."),
}
VOCAB, WIDTH, LAYERS = 11, 8, 2


def make_state(
    *,
    layers: int = LAYERS,
    width: int = WIDTH,
    vocab: int = VOCAB,
    dtype: torch.dtype = torch.float32,
    tied: bool = False,
    layout: str = "lm",
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """Random tensors under a family's names; a tied model has no lm_head."""
    body, head, vision = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {f"{body}embed_tokens.weight": (vocab, width)}
    for layer in range(layers):
        for name in ("q", "k", "v", "o"):
            shapes[f"{body}layers.{layer}.self_attn.{name}_proj.weight"] = (width, width)
        for name in ("gate", "up"):
            shapes[f"{body}layers.{layer}.mlp.{name}_proj.weight"] = (2 * width, width)
        shapes[f"{body}layers.{layer}.mlp.down_proj.weight"] = (width, 2 * width)
        for name in ("input", "post_attention"):
            shapes[f"{body}layers.{layer}.{name}_layernorm.weight"] = (width,)
    shapes[f"{body}norm.weight"] = (width,)
    if not tied:
        shapes[f"{head}weight"] = (vocab, width)
    if vision is not None:
        shapes[f"{vision}patch_embed.weight"] = (width, 3, 2, 2)
        shapes[f"{vision}blocks.0.mlp.fc1.weight"] = (width, width)
        shapes["multi_modal_projector.weight"] = (width, width)
    return {
        name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()
    }


def make_config(
    *,
    layers: int = LAYERS,
    width: int = WIDTH,
    vocab: int = VOCAB,
    dtype: torch.dtype = torch.float32,
    tied: bool = False,
    layout: str = "lm",
) -> dict[str, Any]:
    """A config.json to go with `make_state`."""
    text = {
        "model_type": "llama",
        "vocab_size": vocab,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "dtype": str(dtype).removeprefix("torch."),
        "tie_word_embeddings": tied,
    }
    if layout == "lm":
        return {"architectures": ["LlamaForCausalLM"], **text}
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "text_config": text,
        "vision_config": {"num_hidden_layers": 1, "hidden_size": width},
        "tie_word_embeddings": tied,
    }


def write_folder(
    folder: Path,
    state: Mapping[str, torch.Tensor],
    config: Mapping[str, Any],
    *,
    shards: int = 1,
    tokenizer: Mapping[str, int] | None = None,
) -> Path:
    """Write tensors, in as many shards as asked, an index where there are several, and config."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config), indent=2))
    names = list(state)
    size = -(-len(names) // shards)
    parts = [names[at : at + size] for at in range(0, len(names), size)]
    files = (
        ["model.safetensors"]
        if shards == 1
        else [f"model-{i:05}-of-{len(parts):05}.safetensors" for i in range(1, len(parts) + 1)]
    )
    for file, part in zip(files, parts, strict=True):
        save_file(
            {name: state[name].contiguous() for name in part}, folder / file, {"format": "pt"}
        )
    if shards > 1:
        index = {
            "metadata": {"total_size": sum(t.numel() * t.element_size() for t in state.values())},
            "weight_map": {n: f for f, part in zip(files, parts, strict=True) for n in part},
        }
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if tokenizer is not None:
        text = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": tokenizer}}
        (folder / "tokenizer.json").write_text(json.dumps(text))
    return folder


def write_model(
    folder: Path,
    *,
    shards: int = 1,
    tokenizer: Mapping[str, int] | None = None,
    change: Callable[[dict[str, torch.Tensor]], None] | None = None,
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    **about: Any,
) -> Path:
    """A whole folder: `about` as in `make_state`, then `change(state)`, then `config` on top."""
    state = make_state(seed=seed, **about)
    if change is not None:
        change(state)
    return write_folder(
        folder,
        state,
        {**make_config(**about), **(config or {})},
        shards=shards,
        tokenizer=tokenizer,
    )
