"""The language model inside the target, and the other models as it has them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mixlab.checkpoint import is_vocabulary, language_prefix, tensor_place
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._opening import Side, pair_sides
from mixlab.merge.planning._pairing import head_and_table
from mixlab.merge.planning._recipe import Recipe
from mixlab.merge.planning._token_rows import Vocabularies
from mixlab.spec import MixlabError, SpecError

if TYPE_CHECKING:
    from mixlab.models.layout import Layout


@dataclass(frozen=True)
class Language:
    """What a recipe with `vlm:` merges.

    Args:
        names: of the target's tensors that are its language model's.
        facts: how that is known, one sentence each.
        first_rows: of vocabulary tables in pieces, the row that each begins with.
    """

    names: Set[str]
    facts: tuple[str, ...] = ()
    first_rows: Mapping[str, int] = field(default_factory=dict)


def pair_language(recipe: Recipe, sides: list[Side], target: Side) -> Language:
    """Fill in `pairs` of every side for the target's language model alone.

    The other models are presented in the target's stored layout, by the rules of transformers,
    unless the recipe gives `names` by hand.

    Raises:
        MixlabError: a model cannot be placed in the target.
    """
    if any(side.names is not None for side in sides):
        return _pair_by_hand(recipe, sides, target)
    from mixlab.models.layout import open_layout, present

    mistakes: list[SpecError] = []
    layouts: dict[int, Layout] = {}
    for side in [target, *(one for one in sides if one is not target)]:
        of = side.of if side.role == "extra" else side.index
        try:
            if of not in layouts:
                layouts[of] = open_layout(side.checkpoint)
            if side is target:
                if layouts[of].kind != "vlm":
                    raise MixlabError(
                        f"{side.folder} is a language model ({layouts[of].model_type}); give a "
                        "VLM, or list both under `models:`"
                    )
                side.pairs = {name: name for name in side.source.entries}
            else:
                side.source = present(side.checkpoint, layouts[of], layouts[target.index])
                side.pairs = {name: name for name in side.source.entries}
        except MixlabError as error:
            mistakes.append(recipe.error(side.path, str(error), of=side.given))
            if side is target:
                break
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else MixlabError("\n".join(map(str, mistakes)))
    mine = layouts[target.index]
    _lend_tables(sides, target)
    how = dict.fromkeys(
        f"{sides[at].folder.resolve().name} {one.how}" for at, one in layouts.items()
    )
    told = f"language models placed: {'; '.join(how)}"
    return Language(frozenset(mine.backbone), (told,), first_rows(mine))


def first_rows(layout: Layout) -> dict[str, int]:
    """Of tables that are stored in pieces: stored name -> the row that the piece begins with."""
    found: dict[str, int] = {}
    for group in layout.groups:
        rows = None if group.conversion is None else group.conversion.rows()
        if rows is not None and all(is_vocabulary(name) for name in group.stored):
            found |= {name: first for name, (first, _) in rows.items()}
    return found


def _lend_tables(sides: list[Side], target: Side) -> None:
    """A model whose head is its embeddings gives those for the target's head."""
    head, table = head_and_table(target.source.entries)
    for side in sides:
        if head and table and side is not target and head not in side.pairs and table in side.pairs:
            side.pairs[head] = side.pairs[table]


def _pair_by_hand(recipe: Recipe, sides: list[Side], target: Side) -> Language:
    pair_sides(recipe, sides, target)
    prefix = language_prefix(target.source.entries)
    names = {name for name in target.source.entries if _in_language(name, prefix)}
    for side in sides:
        if side.role != "extra" and side is not target:
            names |= side.pairs.keys() if side.text() == side.config else set()
    for side in [one for one in sides if one is not target]:
        side.pairs = {mine: its for mine, its in side.pairs.items() if mine in names}
    return Language(names)


def align_vocabularies(
    language: Language, sides: list[Side], target: Side, mistakes: Mistakes
) -> Vocabularies:
    """The vocabularies of all models beside the target's; further tensors have their model's."""
    folders = {
        side.index: (sides[side.of] if side.role == "extra" else side).folder
        for side in sides
        if side is not target
    }
    return Vocabularies(target.folder, folders, mistakes, language.first_rows)


def _in_language(name: str, prefix: str | None) -> bool:
    place = tensor_place(name)
    return place.module != "other" if place.layer is None else place.prefix == prefix
