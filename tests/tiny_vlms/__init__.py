"""Tiny random VLMs of the families of transformers, each with its natural reference."""

from tiny_vlms import _gemma, _generic, _glm, _idefics, _llava, _meta, _molmo, _more, _qwen
from tiny_vlms._family import VOCABULARY, Family, build
from tiny_vlms._folders import words, write_model, write_reference, write_state, write_vlm
from tiny_vlms._timm import TOWERLESS, Towerless

_ROOMS = (_llava, _qwen, _gemma, _idefics, _meta, _glm, _molmo, _more)
FAMILIES: dict[str, Family] = {family.name: family for room in _ROOMS for family in room.FAMILIES}
CASES = [(family.name, tied) for family in FAMILIES.values() for tied in family.ties]
"""Every family by whether its embeddings and head are tied."""
GENERIC: dict[str, Family] = {family.name: family for family in _generic.GENERIC}
"""Families that nobody listed: texts alone, and a natural reference where there is one."""

__all__ = [
    "CASES",
    "FAMILIES",
    "GENERIC",
    "TOWERLESS",
    "VOCABULARY",
    "Family",
    "Towerless",
    "build",
    "words",
    "write_model",
    "write_reference",
    "write_state",
    "write_vlm",
]
