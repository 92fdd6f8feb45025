"""Tiny random VLMs of the families of transformers, each with its natural reference."""

from tiny_vlms import _gemma, _llava, _qwen
from tiny_vlms._family import Family, build
from tiny_vlms._folders import words, write_model, write_reference, write_state, write_vlm

FAMILIES: dict[str, Family] = {
    family.name: family for module in (_llava, _qwen, _gemma) for family in module.FAMILIES
}
CASES = [(family.name, tied) for family in FAMILIES.values() for tied in family.ties]
"""Every family by whether its embeddings and head are tied."""

__all__ = [
    "CASES",
    "FAMILIES",
    "Family",
    "build",
    "words",
    "write_model",
    "write_reference",
    "write_state",
    "write_vlm",
]
