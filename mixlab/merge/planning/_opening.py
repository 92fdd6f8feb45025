"""The models of a recipe, opened: headers and configs, no weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mixlab.checkpoint import Checkpoint, TensorEntry, TensorSource, check_plain, text_part
from mixlab.merge._method import MergeMethod
from mixlab.merge._plan import Input
from mixlab.merge.planning._folders import model_folder
from mixlab.merge.planning._pairing import pair_names
from mixlab.merge.planning._recipe import Recipe
from mixlab.spec import MixlabError, SpecError, nearest

Role = Literal["model", "base", "extra"]


@dataclass
class Side:
    """One opened model.

    Args:
        index: among the plan's sources.
        role: merged, measured from, or a model's further tensors (`of` is that model's index).
        path: where the recipe names it.
        given: as the recipe spells it.
        source: its tensors, as the merge reads them: the folder, or what it is presented as.
        checkpoint: its folder, open.
        names: prefix map by hand.
        config: its config.json; empty for further tensors.
        pairs: target's name -> its own name.
    """

    index: int
    role: Role
    path: tuple[str | int, ...]
    given: str
    source: TensorSource
    checkpoint: Checkpoint
    config: dict[str, Any]
    names: dict[str, str] | None = None
    of: int = -1
    pairs: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Its folder."""
        return self.checkpoint.folder

    def input(self, name: str) -> Input:
        """The tensor that belongs to the target's `name`."""
        return Input(self.index, self.source.entries[self.pairs[name]])

    def entry(self, name: str) -> TensorEntry:
        """Header of the tensor that belongs to the target's `name`."""
        return self.source.entries[self.pairs[name]]

    def file(self, name: str) -> Path:
        """The file that holds the tensor that belongs to the target's `name`."""
        return self.place(self.pairs[name])

    def place(self, name: str) -> Path:
        """The file that holds one of its own tensors; the folder of one that is made of others."""
        return self.folder if self.source is not self.checkpoint else self.checkpoint.file_of(name)

    def text(self) -> dict[str, Any]:
        """The language model's part of the config."""
        return text_part(self.config)


def open_sides(recipe: Recipe, method: MergeMethod) -> list[Side]:
    """Open every model: the merged ones in order, then the base, then further tensors.

    A model's key, on which random bits depend, is its position, never its path or placeholder:
    neither moving a folder nor filling a recipe in changes a bit.

    Raises:
        SpecError: naming each folder that is missing or does not hold.
    """
    sides: list[Side] = []
    mistakes: list[SpecError] = []
    for role, path, given, key, names, of in _wanted(recipe, method):
        try:
            source = Checkpoint.open(model_folder(recipe.folder(given), placeholders=True), key=key)
        except MixlabError as error:
            mistakes.append(recipe.error(path, str(error), of=given))
            continue
        sides.append(Side(len(sides), role, path, given, source, source, {}, names, of))
        try:
            sides[-1].config = {} if role == "extra" else source.config()
            check_plain(sides[-1].folder, sides[-1].config, source.entries)
        except MixlabError as error:
            mistakes.append(recipe.error(path, str(error), of=given))
    if mistakes:
        close_sides(sides)
        if len(mistakes) == 1:
            raise mistakes[0]
        raise MixlabError("\n".join(str(mistake) for mistake in mistakes))
    return sides


def close_sides(sides: list[Side]) -> None:
    """Close all files."""
    for side in sides:
        side.checkpoint.close()


def find_target(recipe: Recipe, sides: list[Side]) -> Side:
    """The model that the output is made after.

    Raises:
        SpecError: `target` names none of the models.
    """
    wanted = recipe.target
    models = [side for side in sides if side.role == "model"]
    named = {side.given: side for side in reversed(sides) if side.role != "extra"}
    if isinstance(wanted, int):
        if 0 <= wanted < len(models):
            return models[wanted]
        last = f"0 to {len(models) - 1}"
        raise recipe.error(("target",), f"target {wanted}: there are models {last}")
    if wanted in named:
        return named[wanted]
    for side in sides:
        if wanted == "base" and side.role == "base":
            return side
        if side.role != "extra" and Path(wanted).resolve() == side.folder.resolve():
            return side
    raise recipe.error(
        ("target",), f"target {wanted!r} is none of the models{nearest(wanted, [*named, 'base'])}"
    )


def pair_sides(recipe: Recipe, sides: list[Side], target: Side) -> None:
    """Fill in `pairs` of every side.

    Raises:
        SpecError: naming each model whose tensors do not fit the target's.
    """
    mistakes = []
    for side in [s for s in sides if s.role != "extra"]:
        if side is target:
            side.pairs = {name: name for name in side.source.entries}
            continue
        try:
            side.pairs = pair_names(target.source.entries, side.source.entries, side.names)
        except MixlabError as error:
            told = f"{side.folder} does not fit {target.folder}: {error}"
            mistakes.append(recipe.error(side.path, told, of=side.given))
    if mistakes:
        raise mistakes[0] if len(mistakes) == 1 else MixlabError("\n".join(map(str, mistakes)))
    for side in [s for s in sides if s.role == "extra"]:
        own = next(s for s in sides if s.index == side.of).pairs
        side.pairs = {t: n for t, n in own.items() if n in side.source.entries}


def _wanted(
    recipe: Recipe, method: MergeMethod
) -> Iterator[tuple[Role, tuple[str | int, ...], str, str, dict[str, str] | None, int]]:
    models = recipe.merged
    for index, (place, entry) in enumerate(models):
        yield "model", place, entry.model, f"model-{index}", entry.names or recipe.names, -1
    if recipe.origin is not None:
        place, given = recipe.origin
        names = recipe.names
        if place == ("reference",) and recipe.reference is not None:
            names = recipe.reference.names or names
        yield "base", place, given, "base", names, -1
    if method.extra:
        for index, (place, entry) in enumerate(models):
            yield (
                "extra",
                (*place, method.extra),
                entry.settings[method.extra],
                f"{method.extra}-{index}",
                None,
                index,
            )
