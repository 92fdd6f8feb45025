"""What `vlm:` and `reference:` of a recipe are to its method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mixlab.merge._method import get_method
from mixlab.spec import SpecError

if TYPE_CHECKING:
    from mixlab.merge.planning._recipe import Recipe, RecipeModel

Place = tuple[str | int, ...]


def merged_models(recipe: Recipe) -> list[tuple[Place, RecipeModel]]:
    """The merged models in order, each with where it stands: the VLM first, then the reference
    unless it is the base, then `models`."""
    found: list[tuple[Place, RecipeModel]] = []
    if recipe.vlm is not None:
        found.append((("vlm",), recipe.vlm))
    if recipe.reference is not None and not reference_is_base(recipe):
        found.append((("reference",), recipe.reference))
    return [*found, *((("models", at), entry) for at, entry in enumerate(recipe.models))]


def base_model(recipe: Recipe) -> tuple[Place, str] | None:
    """Where the base stands, and what is given there."""
    if recipe.base is not None:
        return ("base",), recipe.base
    if recipe.reference is not None and reference_is_base(recipe):
        return ("reference",), recipe.reference.model
    return None


def reference_is_base(recipe: Recipe) -> bool:
    """Whether the method measures from the reference: it needs a base, and no other is given.

    Methods that may have a base merge the two where none is given: measured from the reference, the
    VLM alone would be no merge.
    """
    return (
        recipe.reference is not None
        and recipe.base is None
        and get_method(recipe.method).base == "required"
    )


def check_roles(recipe: Recipe) -> Iterator[SpecError]:
    """What is wrong with a recipe's models, whatever its method."""
    if recipe.vlm is None and recipe.reference is None:
        if not recipe.models:
            yield recipe.error(
                ("models",),
                "models: no model; list those that are merged, or give `vlm:` and `reference:`",
            )
        return
    for one, other in (("vlm", "reference"), ("reference", "vlm")):
        if getattr(recipe, one) is not None and getattr(recipe, other) is None:
            yield recipe.error(
                (one,), f"{one!r} without {other!r}: give both, or list the models under `models:`"
            )
    if "target" in recipe.model_fields_set:
        yield recipe.error(
            ("target",), "the output is made after the VLM; leave `target` out beside `vlm:`"
        )
    if recipe.reference is not None and recipe.vlm is not None and reference_is_base(recipe):
        for key in recipe.reference.settings:
            yield recipe.error(
                ("reference", key),
                f"{recipe.method} measures from the reference, which then has no settings of its "
                f"own; remove {key!r}",
            )
