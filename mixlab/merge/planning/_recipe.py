"""A merge asked for in YAML: method, models with their settings, scope, seed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr

from mixlab.merge._method import method_names
from mixlab.merge.planning._recipe_checks import check_settings, fill_placeholders, places
from mixlab.merge.planning._roles import Place, base_model, merged_models
from mixlab.spec import (
    Located,
    Settings,
    SpecError,
    apply_overrides,
    load_yaml,
    locate,
    nearest,
    parse,
    set_dotted,
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
        vlm, reference: a VLM and a language model. The language model inside the VLM is merged
            with the reference, all else stays the VLM's bit for bit. For a method that measures
            from a base the reference is the base (unless `base` names another); else the VLM is
            the first and the reference the second of the models. `models` may add more.
        settings: of the method; a per-model setting given here holds for every model. Any setting
            may be a schedule over layers, modules or names.
        target: the model whose tensors, config and side files the output carries: index among
            `models`, or "base", or a path as it stands in the recipe. The VLM, where one is given.
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
    models: list[Annotated[RecipeModel, BeforeValidator(_entry)]] = Field(default_factory=list)
    vlm: Annotated[RecipeModel, BeforeValidator(_entry)] | None = None
    reference: Annotated[RecipeModel, BeforeValidator(_entry)] | None = None
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

    @property
    def merged(self) -> list[tuple[Place, RecipeModel]]:
        """All merged models in order, with their places; the VLM and the reference among them."""
        return merged_models(self)

    @property
    def origin(self) -> tuple[Place, str] | None:
        """What the method measures from, and where that stands."""
        return base_model(self)

    def error(self, path: tuple[str | int, ...], message: str, *, of: str = "") -> SpecError:
        """An error that points at `path` of the file that the recipe was read from.

        Args:
            of: the model that stands there; a filled placeholder was named on the command line.
        """
        if of in self._roles:
            return SpecError(message, file=f"--model {of}={self._roles[of]}")
        return self._located.error(path, message)

    def folder(self, given: str) -> str:
        """`given`, or what the placeholder `given` was filled with."""
        return self._roles.get(given, given)

    def plain(self) -> dict[str, Any]:
        """As plain data with placeholders filled: a recipe again, for the card and for replays."""
        data = self.model_dump(exclude_unset=True)
        for path, given in places(self):
            set_dotted(data, ".".join(map(str, path)), self.folder(given), shown=given)
        if isinstance(self.target, str):
            data["target"] = self.folder(self.target)
        return {**data, "seed": self.seed}


def load_recipe(
    source: str | Path | Mapping[str, Any],
    *,
    models: Mapping[str, str | Path] | None = None,
    overrides: Sequence[str] = (),
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
    mistakes = [*fill_placeholders(recipe, filled, packaged), *check_settings(recipe)]
    if mistakes:
        raise _together(mistakes)
    return recipe


def _read(source: str | Path | Mapping[str, Any]) -> tuple[Located, bool]:
    if isinstance(source, Mapping):
        return locate(dict(source)), False
    path = Path(source)
    if path.is_file() or path.suffix in (".yaml", ".yml") or path.name != str(source):
        return load_yaml(path), False
    from mixlab.merge.recipes import named_recipes

    known = named_recipes()
    if str(source) in method_names():
        raise SpecError(
            f"is a method; write a file with `method: {source}`, models and settings, and give "
            "that (mixlab merge --list shows the settings)",
            file=str(source),
        )
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
