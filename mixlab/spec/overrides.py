"""`--set a.b=c`: change one value of a file for one start."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import yaml

from mixlab.spec.errors import SpecError
from mixlab.spec.located import NOT_YAML, Key, Located, _Loader


def _step(data: Any, parts: list[str], shown: str) -> tuple[Key, int]:
    """The key that the first of `parts` name in `data`, and how many of them it takes.

    A key may itself hold dots (`parameters.mix.text_fraction.max`): the longest that exists wins.
    """
    if isinstance(data, list):
        if not parts[0].isdigit() or int(parts[0]) >= len(data):
            raise SpecError(
                f"{parts[0]!r} is no entry of a list of {len(data)}; count from 0", file=shown
            )
        return int(parts[0]), 1
    if not isinstance(data, dict):
        raise SpecError(
            f"cannot set {'.'.join(parts)!r} inside {data!r}, which is no mapping", file=shown
        )
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if key in data:
            return key, length
    return parts[0], 1


def set_dotted(data: Any, name: str, value: Any, *, shown: str) -> tuple[Key, ...]:
    """Set the dotted `name` in `data` in place; the path that was set, or the part made for it.

    Keys that do not exist are made (the model that reads the data refuses unknown ones).

    Raises:
        SpecError: the name leads through a value that is no mapping or list.
    """
    parts = name.split(".")
    if not all(parts):
        raise SpecError(f"{name!r} is no dotted name", file=shown)
    path: list[Key] = []
    made: tuple[Key, ...] | None = None
    while True:
        key, taken = _step(data, parts, shown)
        parts = parts[taken:]
        path.append(key)
        if not parts:
            data[key] = value
            return made or tuple(path)
        if isinstance(data, dict) and data.get(key) is None:
            data[key] = {}
            made = made or tuple(path)
        data = data[key]


def apply_overrides(source: Any, overrides: Iterable[str]) -> Any:
    """A copy of `source` (Located, or plain data) with each `a.b=c` set.

    The value is read as YAML: `0.3`, `true`, `[0, 1]`, `{short: 1.0}`, or text.

    Raises:
        SpecError: an override without `=`, with a value that is no YAML, or through a non-mapping.
    """
    located = source if isinstance(source, Located) else Located(source)
    data = copy.deepcopy(located.data)
    origins = dict(located.origins)
    for override in overrides:
        shown = f"--set {override}"
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            raise SpecError("expected NAME=VALUE, such as arm.steps=100", file=shown)
        try:
            value = yaml.load(text, Loader=_Loader)
        except NOT_YAML as error:
            raise SpecError(f"the value {text!r:.100} is not valid YAML", file=shown) from error
        origins[set_dotted(data, name.strip(), value, shown=shown)] = shown
    changed = replace(located, data=data, origins=origins)
    return changed if isinstance(source, Located) else changed.data
