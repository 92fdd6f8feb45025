"""An extraction or a splice as plain data, for its plan, its card and its verification."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixlab.merge._plan import MergePlan
from mixlab.spec import MixlabError

_KEYS = ({"extract", "reference"}, {"splice", "into"})


def extraction(vlm: str | Path, reference: str | Path | None) -> dict[str, str]:
    """Take the language model out of `vlm`, in the class of `reference`."""
    given = {"extract": str(vlm)}
    return given if reference is None else {**given, "reference": str(reference)}


def splicing(vlm: str | Path, lm: str | Path) -> dict[str, str]:
    """Put `lm` back into `vlm`."""
    return {"splice": str(lm), "into": str(vlm)}


def is_backbone(recipe: object) -> bool:
    """Whether plain data is an extraction or a splice."""
    return isinstance(recipe, Mapping) and bool({"extract", "splice"} & recipe.keys())


def moved(recipe: Mapping[str, Any], models: Mapping[str, str | Path]) -> dict[str, str]:
    """The same with other folders, by the names that stand in it.

    Raises:
        MixlabError: a name that does not.
    """
    for name in models:
        if name not in recipe.values():
            raise MixlabError(
                f"--model {name}={models[name]}: there is no input {name!r}; the inputs are "
                f"{', '.join(map(str, recipe.values()))}"
            )
    return {key: str(models.get(value, value)) for key, value in recipe.items()}


def plan_backbone(recipe: Mapping[str, Any]) -> MergePlan:
    """The plan of an extraction or a splice, its sources open.

    Raises:
        MixlabError: every mistake that headers and configs show.
    """
    from mixlab.merge.backbone._extracting import plan_extraction
    from mixlab.merge.backbone._splicing import plan_splice

    if not any(recipe.keys() <= keys for keys in _KEYS):
        raise MixlabError(
            f"{dict(recipe)}: expected `extract` and maybe `reference`, or `splice` and `into`"
        )
    if "extract" in recipe:
        return plan_extraction(recipe["extract"], recipe.get("reference"))
    return plan_splice(recipe["into"], recipe["splice"])
