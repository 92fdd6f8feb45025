"""The language model inside the target, and the other models as it has them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from mixlab.checkpoint import language_prefix, tensor_place
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._opening import Side, pair_sides
from mixlab.merge.planning._recipe import Recipe
from mixlab.merge.planning._token_rows import Vocabularies


@dataclass(frozen=True)
class Language:
    """What a recipe with `vlm:` merges.

    Args:
        names: of the target's tensors that are its language model's.
        facts: how that is known, one sentence each.
    """

    names: Set[str]
    facts: tuple[str, ...] = ()


def pair_language(recipe: Recipe, sides: list[Side], target: Side) -> Language:
    """Fill in `pairs` of every side for the target's language model alone.

    Raises:
        MixlabError: a model cannot be placed in the target.
    """
    pair_sides(recipe, sides, target)
    prefix = language_prefix(target.source.entries)
    names = {name for name in target.source.entries if _in_language(name, prefix)}
    for side in sides:
        if side.role != "extra" and side is not target:
            names |= side.pairs.keys() if _is_lm(side) else set()
    for side in [one for one in sides if one is not target]:
        side.pairs = {mine: its for mine, its in side.pairs.items() if mine in names}
    return Language(names)


def align_vocabularies(sides: list[Side], target: Side, mistakes: Mistakes) -> Vocabularies:
    """The vocabularies of all models beside the target's; further tensors have their model's."""
    folders = {
        side.index: (sides[side.of] if side.role == "extra" else side).folder
        for side in sides
        if side is not target
    }
    return Vocabularies(target.folder, folders, mistakes)


def _in_language(name: str, prefix: str | None) -> bool:
    place = tensor_place(name)
    return place.module != "other" if place.layer is None else place.prefix == prefix


def _is_lm(side: Side) -> bool:
    return side.text() == side.config
