"""A merge asked for in YAML: method, models with their settings, scope, seed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError

from mixlab.merge._method import MergeMethod, get_method, method_names, spelled
from mixlab.spec import (
    Located,
    MixlabError,
    Settings,
    SpecError,
    apply_overrides,
    load_yaml,
    locate,
    nearest,
    parse,
)

OutDtype = Literal["float32", "float16", "bfloat16", "float64"]


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _entry(value: Any) -> Any:
    if isinstance(value, str | os.PathLike):
        return {"model": _text(value)}
    return {key: _text(v) for key, v in value.items()} if isinstance(value, Mapping) else value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Folder = Annotated[str, BeforeValidator(_text), Field(min_length=1)]


class RecipeModel(Settings):
    """One merged model; the method's settings of this model stand beside `model`.

    Args:
        model: folder, placeholder or hub id.
        names: prefix of this model's tensor names -> prefix in the target, where names differ.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    model: Folder
    names: dict[str, str] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Everything beside `model` and `names`, as given."""
        return dict(self.model_extra or {})


class Recipe(Settings):
    """What to merge and how; `load_recipe` reads it, `plan_merge` turns it into a plan.

    Args:
        method: name of a registered method.
        base: what the method measures from; some methods need one, some have none.
        models: those merged, the base not among them.
        settings: of the method; a per-model setting given here holds for every model. Any setting
            may be a schedule over layers, modules or names.
        target: the model whose tensors, config and side files the output carries: index among
            `models`, or "base", or a path as it stands in the recipe.
        scope: globs over tensor names (the target's, or those of a merged model); what none of
            them fits stays the target's bit for bit. All that the models share, by default.
        names: as in `RecipeModel`, for every model that has none of its own.
        out_dtype: of floating tensors; each keeps the target's by default.
        seed: of the random methods.
        missing: whether a block tensor that some model lacks is an error, or is kept.
        allow_nonfinite: write NaN or infinite results instead of stopping.
        name, description: for readers.
    """

    method: str
    base: Folder | None = None
    models: list[Annotated[RecipeModel, BeforeValidator(_entry)]] = Field(min_length=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    target: int | Folder = 0
    scope: Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)] | None = None
    names: dict[str, str] | None = None
    out_dtype: OutDtype | None = None
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    missing: Literal["error", "keep"] = "error"
    allow_nonfinite: bool = False
    name: str = ""
    description: str = ""

    _located: Located = PrivateAttr(default_factory=lambda: Located({}))
    _roles: dict[str, str] = PrivateAttr(default_factory=dict)

    def error(self, path: tuple[str | int, ...], message: str) -> SpecError:
        """An error that points at `path` of the file that the recipe was read from."""
        return self._located.error(path, message)

    def folder(self, given: str) -> str:
        """`given`, or what the placeholder `given` was filled with."""
        return self._roles.get(given, given)

    def is_placeholder(self, given: str) -> bool:
        """Whether `given` was filled from `models=`."""
        return given in self._roles

    def plain(self) -> dict[str, Any]:
        """As plain data with placeholders filled: a recipe again, for the card and for replays."""
        data = self.model_dump(exclude_unset=True)
        if self.base is not None:
            data["base"] = self.folder(self.base)
        for entry in data["models"]:
            entry["model"] = self.folder(entry["model"])
        if isinstance(self.target, str):
            data["target"] = self.folder(self.target)
        return {**data, "seed": self.seed}


def load_recipe(
    source: str | Path | Mapping[str, Any],
    *,
    models: Mapping[str, str | Path] | None = None,
    overrides: list[str] | tuple[str, ...] = (),
) -> Recipe:
    """Read a recipe and check all that can be checked without its models.

    Args:
        source: a YAML file, plain data, or the name of a packaged recipe.
        models: folder of each placeholder, such as `{"vlm": DIR, "reference": DIR}`.
        overrides: `a.b=c`, as on the command line.

    Raises:
        SpecError: every mistake, one a line, as `file:line: what; how to mend it`.
    """
    located, packaged = _read(source)
    located = apply_overrides(located, overrides)
    if "merge_method" in located.data:
        raise located.error(
            ("merge_method",),
            "this is a mergekit recipe; hand the file to `mixlab merge` or `merge_checkpoints`, "
            "or write `method:` for a recipe of mixlab's own",
        )
    recipe = parse(Recipe, located)
    recipe._located = located
    filled = {name: os.fspath(folder) for name, folder in (models or {}).items()}
    mistakes = [*_placeholders(recipe, filled, packaged), *_settings(recipe)]
    if mistakes:
        raise _together(mistakes)
    return recipe


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


def _read(source: str | Path | Mapping[str, Any]) -> tuple[Located, bool]:
    if isinstance(source, Mapping):
        return locate(dict(source)), False
    path = Path(source)
    if path.is_file() or path.suffix in (".yaml", ".yml") or path.name != str(source):
        return load_yaml(path), False
    from mixlab.merge.recipes import named_recipes

    known = named_recipes()
    if str(source) not in known:
        raise SpecError(
            f"neither a file nor a packaged recipe{nearest(source, known)}", file=str(source)
        )
    return load_yaml(known[str(source)]), True


def _together(mistakes: list[SpecError]) -> SpecError:
    if len(mistakes) == 1:
        return mistakes[0]
    combined = SpecError("\n".join(dict.fromkeys(str(mistake) for mistake in mistakes)))
    combined.file, combined.line = mistakes[0].file, mistakes[0].line
    return combined


def _places(recipe: Recipe) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every spot of the recipe that names a folder."""
    if recipe.base is not None:
        yield ("base",), recipe.base
    extra = _extra(recipe)
    for index, entry in enumerate(recipe.models):
        yield ("models", index, "model"), entry.model
        further = entry.settings.get(extra) if extra else None
        if isinstance(further, str):
            yield ("models", index, extra), further


def _extra(recipe: Recipe) -> str:
    return get_method(recipe.method).extra if recipe.method in method_names() else ""


def _placeholders(recipe: Recipe, filled: Mapping[str, str], packaged: bool) -> Iterator[SpecError]:
    used = dict(_places(recipe))
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


def _settings(recipe: Recipe) -> Iterator[SpecError]:
    try:
        method = get_method(recipe.method)
    except MixlabError as error:
        yield recipe.error(("method",), str(error))
        return
    shared = {spelled(name): field for name, field in method.shared.model_fields.items()}
    each = {spelled(name): field for name, field in method.each.model_fields.items()}
    for key in recipe.settings:
        if key not in shared and key not in each:
            known = {*shared, *each}
            told = nearest(key, known) or "; it has no settings"
            yield recipe.error(("settings", key), f"{method.name}: unknown setting {key!r}{told}")
    for index, entry in enumerate(recipe.models):
        for key in entry.settings:
            if key in shared:
                yield recipe.error(
                    ("models", index, key),
                    f"{method.name}: {key!r} holds for all models; put it under `settings:`",
                )
            elif key not in each and key != method.extra:
                known = {"model", "names", *each, *([method.extra] if method.extra else [])}
                yield recipe.error(
                    ("models", index, key),
                    f"{method.name}: unknown key {key!r}{nearest(key, known)}",
                )
        if method.extra and not isinstance(entry.settings.get(method.extra), str):
            yield recipe.error(
                ("models", index),
                f"{method.name}: each model needs `{method.extra}:`, a folder of tensors of the "
                "same names and shapes",
            )
    for key, field in {**shared, **each}.items():
        own = key in each and all(key in entry.settings for entry in recipe.models)
        if field.is_required() and key not in recipe.settings and not own:
            where = "beside each model" if key in each else "under `settings:`"
            yield recipe.error(("method",), f"{method.name}: {key!r} is missing; give it {where}")
    try:
        method.check(len(recipe.models), recipe.base is not None)
    except MixlabError as error:
        yield recipe.error(("models",), str(error))
    yield from _values(recipe, method, {*shared, *each})


def _values(recipe: Recipe, method: MergeMethod, known: set[str]) -> Iterator[SpecError]:
    places: dict[tuple[str | int, ...], Any] = {
        ("settings", key): value for key, value in recipe.settings.items()
    }
    for index, entry in enumerate(recipe.models):
        places.update({("models", index, key): value for key, value in entry.settings.items()})
    for path, value in places.items():
        key = str(path[-1])
        if key not in known or isinstance(value, list | dict):
            continue
        wrong = check_setting(method, key, value)
        if wrong:
            yield recipe.error(path, f"{method.name}: {wrong}")
