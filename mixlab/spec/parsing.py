"""From located data to a settings model, with errors that name file, line and nearest key."""

import os
import typing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mixlab.spec.errors import SpecError, nearest
from mixlab.spec.located import Key, Located, load_yaml

Model = TypeVar("Model", bound=BaseModel)

# Of a union such as `bool | list`, pydantic reports every branch. Where a mistake lies inside a
# value, the branches that would have taken another type altogether say nothing of use.
_OTHER_BRANCH = ("_type", "_parsing")
# What pydantic says in words of Python.
_WORDS = {
    "model_type": "expected a mapping (key: value)",
    "dict_type": "expected a mapping (key: value)",
    "list_type": "expected a list",
    "string_type": "expected text",
}


def _real_path(data: Any, loc: tuple[Key, ...]) -> tuple[Key, ...]:
    """`loc` without the tags that pydantic adds for unions and validators."""
    path: list[Key] = []
    for key in loc:
        inside = (isinstance(data, dict) and key in data) or (
            isinstance(data, list) and isinstance(key, int) and key < len(data)
        )
        if inside:
            data = data[key]
            path.append(key)
    return tuple(path)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Every settings model that a type may hold, containers opened."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [
        model
        for part in typing.get_args(annotation)
        if not isinstance(part, str)
        for model in _models_in(part)
    ]


def _known_keys(model: type[BaseModel], path: tuple[Key, ...]) -> set[str]:
    """Keys that may stand in the mapping at `path` below `model`."""
    models = [model]
    for key in path:
        if isinstance(key, int):
            continue
        inner = [
            found
            for candidate in models
            for name, info in candidate.model_fields.items()
            if key in (name, info.alias)
            for found in _models_in(info.annotation)
        ]
        # A key that no model knows is a name inside dict[str, Model]: the models stay.
        models = inner or models
    return {
        info.alias or name for candidate in models for name, info in candidate.model_fields.items()
    }


def _message(error: Any, path: tuple[Key, ...], known: set[str]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    name = ".".join(str(key) for key in path)
    if kind == "extra_forbidden":
        return f"unknown key {path[-1]!r}{nearest(path[-1], known)}"
    if kind == "missing":
        where = f" in {name}" if name else ""
        return f"key {error['loc'][-1]!r} is missing{where}"
    if kind == "value_error":
        return f"{name}: {context.get('error', error['msg'])}" if name else str(context["error"])
    if kind == "union_tag_invalid":
        options = [tag.strip("'\" ") for tag in str(context["expected_tags"]).split(",")]
        return f"{name}: unknown kind {context['tag']!r}{nearest(context['tag'], options)}"
    shown = repr(error["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    text = _WORDS.get(kind) or error["msg"][0].lower() + error["msg"][1:]
    return f"{name}: {text}, found {shown}" if name else f"{text}, found {shown}"


def _has_below(path: tuple[Key, ...], paths: list[tuple[Key, ...]]) -> bool:
    return any(len(other) > len(path) and other[: len(path)] == path for other in paths)


def parse(
    model: type[Model], source: Located | str | os.PathLike[str], *, context: Any = None
) -> Model:
    """Validate `source` (located data, or a YAML file) as `model`.

    Raises:
        SpecError: every mistake found, one a line, each as `file:line: what; how to mend it`; its
            `file` and `line` are those of the first.
    """
    located = source if isinstance(source, Located) else load_yaml(source)
    try:
        return model.model_validate(located.data, context=context)
    except ValidationError as failure:
        mistakes = []
        errors = failure.errors(include_url=False)
        paths = [_real_path(located.data, error["loc"]) for error in errors]
        for error, path in zip(errors, paths, strict=True):
            if error["type"].endswith(_OTHER_BRANCH) and _has_below(path, paths):
                continue
            known = _known_keys(model, path[:-1])
            mistakes.append(located.error(path, _message(error, path, known)))
        unique = list({str(mistake): mistake for mistake in mistakes}.values())
        first = unique[0]
        if len(unique) == 1:
            raise first from None
        combined = SpecError("\n".join(str(mistake) for mistake in unique))
        combined.file, combined.line = first.file, first.line
        raise combined from None
