"""What can be wrong with a recipe whose models have not been looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from mixlab.merge._method import MergeMethod, get_method, method_names, spelled
from mixlab.merge.planning._roles import Place, check_roles
from mixlab.spec import MixlabError, SpecError, nearest

if TYPE_CHECKING:
    from mixlab.merge.planning._recipe import Recipe, RecipeModel


def check_setting(method: MergeMethod, key: str, value: Any) -> str | None:
    """What is wrong with one value of one setting, None where nothing is."""
    each = {spelled(name) for name in method.each.model_fields}
    model = method.each if key in each else method.shared
    if isinstance(value, float) and not math.isfinite(value):
        return f"{key}: found {value}, expected a finite number"
    try:
        model.model_validate({key: value})
    except ValidationError as failure:
        for error in failure.errors(include_url=False):
            if error["loc"] and error["loc"][0] == key and error["type"] != "missing":
                return f"{key}: {error['msg'][0].lower()}{error['msg'][1:]}, found {value!r}"
    return None


def places(recipe: Recipe) -> Iterator[tuple[Place, str]]:
    """Every spot of the recipe that names a folder."""
    if recipe.base is not None:
        yield ("base",), recipe.base
    extra = _extra(recipe)
    named = [(("vlm",), recipe.vlm), (("reference",), recipe.reference)]
    entries: list[tuple[Place, RecipeModel | None]] = [
        *named, *((("models", index), entry) for index, entry in enumerate(recipe.models))
    ]  # fmt: skip
    for place, entry in entries:
        if entry is None:
            continue
        yield (*place, "model"), entry.model
        further = entry.settings.get(extra) if extra else None
        if isinstance(further, str):
            yield (*place, extra), further


def _extra(recipe: Recipe) -> str:
    return get_method(recipe.method).extra if recipe.method in method_names() else ""


def fill_placeholders(
    recipe: Recipe, filled: Mapping[str, str], packaged: bool
) -> Iterator[SpecError]:
    used = dict(places(recipe))
    for path, given in used.items():
        if given in filled:
            recipe._roles[given] = filled[given]
        elif packaged:
            yield recipe.error(
                path,
                f"{given!r} stands for a folder that you choose; fill it with "
                f"--model {given}=DIR, in Python models={{{given!r}: DIR}}",
            )
    for name in filled:
        if name not in used.values():
            yield SpecError(
                f"the recipe has no model {name!r}{nearest(name, used.values())}",
                file=f"--model {name}={filled[name]}",
            )


def check_settings(recipe: Recipe) -> Iterator[SpecError]:
    try:
        method = get_method(recipe.method)
    except MixlabError as error:
        yield recipe.error(("method",), str(error))
        return
    wrong = list(check_roles(recipe))
    if wrong:
        yield from wrong
        return
    models = recipe.merged
    shared = {spelled(name): field for name, field in method.shared.model_fields.items()}
    each = {spelled(name): field for name, field in method.each.model_fields.items()}
    for key in recipe.settings:
        if key not in shared and key not in each:
            known = {*shared, *each}
            told = nearest(key, known) or "; it has no settings"
            yield recipe.error(("settings", key), f"{method.name}: unknown setting {key!r}{told}")
    for place, entry in models:
        for key in entry.settings:
            if key in shared:
                yield recipe.error(
                    (*place, key),
                    f"{method.name}: {key!r} holds for all models; put it under `settings:`",
                )
            elif key not in each and key != method.extra:
                known = {"model", "names", *each, *([method.extra] if method.extra else [])}
                yield recipe.error(
                    (*place, key),
                    f"{method.name}: unknown key {key!r}{nearest(key, known)}",
                )
        if method.extra and not isinstance(entry.settings.get(method.extra), str):
            yield recipe.error(
                place,
                f"{method.name}: each model needs `{method.extra}:`, a folder of tensors of the "
                "same names and shapes",
            )
    for key, field in {**shared, **each}.items():
        own = key in each and all(key in entry.settings for _, entry in models)
        if field.is_required() and key not in recipe.settings and not own:
            where = "beside each model" if key in each else "under `settings:`"
            yield recipe.error(("method",), f"{method.name}: {key!r} is missing; give it {where}")
    try:
        method.check(len(models), recipe.origin is not None)
    except MixlabError as error:
        yield recipe.error(("models",), str(error))
    yield from _values(recipe, method, {*shared, *each})


def _values(recipe: Recipe, method: MergeMethod, known: set[str]) -> Iterator[SpecError]:
    places: dict[tuple[str | int, ...], Any] = {
        ("settings", key): value for key, value in recipe.settings.items()
    }
    for place, entry in recipe.merged:
        places.update({(*place, key): value for key, value in entry.settings.items()})
    for path, value in places.items():
        key = str(path[-1])
        if key not in known or isinstance(value, list | tuple | dict):
            continue
        wrong = check_setting(method, key, value)
        if wrong:
            yield recipe.error(path, f"{method.name}: {wrong}")
