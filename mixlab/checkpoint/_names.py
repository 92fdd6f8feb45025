"""Where in a language model a tensor stands, read from its name alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Module = Literal["attention", "mlp", "norms", "embeddings", "final_norm", "lm_head", "other"]
MODULES: tuple[Module, ...] = (
    "attention", "mlp", "norms", "embeddings", "final_norm", "lm_head", "other",
)  # fmt: skip

# What the list of blocks is called: `model.layers.3`, `transformer.h.3`, `transformer.blocks.3`.
_CONTAINERS = frozenset({"layers", "h", "blocks", "block", "layer"})
# A word of the path, before the block, that tells a part which is not the language model.
_ELSEWHERE = frozenset(
    {
        "vision", "visual", "vit", "vpm", "clip", "siglip", "dino", "sam", "image", "img", "video",
        "audio", "apm", "speech", "talker", "tower", "projector", "connector", "merger",
        "resampler", "aligner", "perceiver", "qformer", "mm", "multimodal", "modal", "adapter",
        "mtp", "gen", "generation", "vqmodel", "dit", "protein",
    }
)  # fmt: skip
_ATTENTION = frozenset({"att", "qkv", "wqkv"})
_MLP = frozenset({"mlp", "mlps", "ffn", "ff", "feed", "fc", "expert", "experts", "moe", "router"})
_LM_HEAD = frozenset(
    {"lm_head", "embed_out", "output", "output_layer", "output_projection", "head"}
)


@dataclass(frozen=True)
class Place:
    """Where a tensor stands.

    Args:
        layer: index of the language model's block, None outside blocks and in other towers.
        module: of the language model; "other" for vision towers, projectors and whatever else.
        prefix: the path up to the list of blocks, or up to the module outside blocks, with its
            final dot: "model.language_model." or "".
    """

    layer: int | None
    module: Module
    prefix: str


@lru_cache(maxsize=1 << 16)
def tensor_place(name: str) -> Place:
    """Place of a tensor of a Hugging Face causal LM or VLM, by the structure of its name.

    No list of model types is kept: a block is a number after `layers`, `h` or `blocks`, and its
    module follows from the words after it, the deepest one first (`self_attn.q_norm` is a norm).
    Blocks below a path that speaks of vision, audio or a projector are not the language model's:
    `visual.blocks.3.mlp.fc1.weight` is layer None, module "other".
    """
    parts = name.split(".")
    for at in range(len(parts) - 1):
        if parts[at] in _CONTAINERS and parts[at + 1].isdigit():
            prefix = "".join(f"{part}." for part in parts[:at])
            if _elsewhere(parts[:at]):
                return Place(None, "other", prefix)
            return Place(int(parts[at + 1]), _in_block(parts[at + 2 :]), prefix)
    module, at = _outside(parts)
    return Place(None, module, "".join(f"{part}." for part in parts[:at]))


def is_vocabulary(name: str) -> bool:
    """Whether the first axis counts tokens: embeddings and head, but no table of positions."""
    positions = ("position", "wpe", "token_type")
    table = tensor_place(name).module in ("embeddings", "lm_head")
    return table and not any(word in name for word in positions)


def language_prefix(names: Iterable[str]) -> str | None:
    """The prefix below which the language model's blocks stand; None where there are no blocks.

    Where several lists of blocks remain, the one with the most tensors.
    """
    counts = Counter(p.prefix for p in map(tensor_place, names) if p.layer is not None)
    return max(sorted(counts), key=counts.__getitem__) if counts else None


def count_layers(names: Iterable[str]) -> int:
    """How many blocks the language model among these tensors has; 0 where there are none."""
    places = [place for place in map(tensor_place, names) if place.layer is not None]
    counts = Counter(place.prefix for place in places)
    if not counts:
        return 0
    main = max(sorted(counts), key=counts.__getitem__)
    return 1 + max(p.layer for p in places if p.prefix == main and p.layer is not None)


def _words(part: str) -> list[str]:
    return re.findall("[a-z]+", part.lower())


def _elsewhere(parts: list[str]) -> bool:
    return any(word in _ELSEWHERE for part in parts for word in _words(part))


def _is_norm(part: str) -> bool:
    return "norm" in part.lower() or re.search(r"(^|_)ln(_|\d|$)", part) is not None


def _in_block(parts: list[str]) -> Module:
    for part in reversed(parts):
        low, words = part.lower(), _words(part)
        if _is_norm(part):
            return "norms"
        if "attn" in low or "attention" in low or _ATTENTION.intersection(words):
            return "attention"
        if _MLP.intersection(words):
            return "mlp"
    return "other"


def _outside(parts: list[str]) -> tuple[Module, int]:
    if _elsewhere(parts):
        return "other", max(len(parts) - 2, 0)
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if any(before.isdigit() for before in parts[:at]):
            continue
        if part in _LM_HEAD:
            return "lm_head", at
        if "embed" in part or part in {"wte", "wpe"}:
            return ("norms" if _is_norm(part) else "embeddings"), at
        if _is_norm(part):
            return "final_norm", at
    return "other", max(len(parts) - 2, 0)
