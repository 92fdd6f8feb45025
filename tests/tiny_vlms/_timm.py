"""Folders of families whose tower is timm's, which need not be installed to write or read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers as hf

from tiny_vlms._family import IMAGE, TEXT, build, text
from tiny_vlms._folders import words, write_state
from tiny_vlms._generic import small_config


@dataclass(frozen=True)
class Towerless:
    """A family whose VLM cannot be built here.

    Args:
        name: the family's name.
        model: class name of the VLM.
        config: the VLM's config.
        natural: class name of the LM that computes its text function.
        others: shapes of a few of the tensors beside the language model.
    """

    name: str
    model: str
    config: Callable[[], hf.PretrainedConfig]
    natural: str
    others: dict[str, tuple[int, ...]]

    def write(self, folder: Path, seed: int = 0) -> hf.PreTrainedModel:
        """The folder as transformers 5 would save it; the language model in it is returned."""
        config = self.config()
        lm = build(getattr(hf, self.natural), config.text_config, seed)
        state = {
            name.replace("model.", "model.language_model.", 1): tensor
            for name, tensor in lm.state_dict().items()
        }
        if config.tie_word_embeddings:
            state.pop("lm_head.weight")
        state |= {name: torch.randn(shape) for name, shape in self.others.items()}
        folder.mkdir(parents=True, exist_ok=True)
        values = {**config.to_dict(), "architectures": [self.model], "dtype": "float32"}
        (folder / "config.json").write_text(json.dumps(values, indent=2))
        words().save_pretrained(folder)
        write_state(folder, state)
        return lm


def gemma3n() -> hf.PretrainedConfig:
    layers = {
        "activation_sparsity_pattern": [0.9, 0.9, 0.0, 0.0],
        "num_kv_shared_layers": 0,
        "intermediate_size": [48] * 4,
        "laurel_rank": 4,
        "altup_num_inputs": 2,
    }
    return small_config("gemma3n", tied=True, text_config=layers)


def fast_vlm() -> hf.PretrainedConfig:
    return hf.FastVlmConfig(
        text_config=text("qwen2", False), image_token_id=IMAGE, tie_word_embeddings=False
    )


def perception_lm() -> hf.PretrainedConfig:
    return hf.PerceptionLMConfig(
        text_config=text("llama", True), image_token_id=IMAGE, tie_word_embeddings=True
    )


def tower(projector: str) -> dict[str, tuple[int, ...]]:
    """One tensor of a tower, and the projector's."""
    stem = "model.vision_tower.timm_model.stem.conv.weight"
    return {stem: (8, 3, 3, 3), projector: (TEXT["hidden_size"], 16)}


TOWERLESS = {
    family.name: family
    for family in (
        Towerless(
            "gemma3n",
            "Gemma3nForConditionalGeneration",
            gemma3n,
            "Gemma3nForCausalLM",
            tower("model.embed_vision.embedding_projection.weight"),
        ),
        Towerless(
            "fast-vlm",
            "FastVlmForConditionalGeneration",
            fast_vlm,
            "Qwen2ForCausalLM",
            tower("model.multi_modal_projector.linear_1.weight"),
        ),
        Towerless(
            "perception-lm-timm",
            "PerceptionLMForConditionalGeneration",
            perception_lm,
            "LlamaForCausalLM",
            tower("model.multi_modal_projector.linear_1.weight"),
        ),
    )
}
