"""How a mergekit file names a model: a folder, a hub id, `model+adapter`, `model@revision`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo


@dataclass(frozen=True)
class Reference:
    """A model as a file names it.

    Args:
        path: a folder, a hub id, or the `name:` of an earlier document.
        revision: of a hub id; a folder has none.
        adapter, adapter_revision: a LoRA adapter to put on top.
    """

    path: str
    revision: str | None = None
    adapter: str | None = None
    adapter_revision: str | None = None

    def __str__(self) -> str:
        return self.model + (f"+{self.adapter_place}" if self.adapter else "")

    @property
    def model(self) -> str:
        """The model without its adapter, as `model_folder` takes it."""
        return self.path + (f"@{self.revision}" if self.revision else "")

    @property
    def adapter_place(self) -> str:
        """The adapter, as `model_folder` takes it."""
        return (self.adapter or "") + (f"@{self.adapter_revision}" if self.adapter_revision else "")


def parse_reference(value: Any, names: Collection[str] = ()) -> Reference:
    """A Reference from text, or from mergekit's mapping with `model` and `lora`.

    A folder that exists is never taken apart, whatever `+` or `@` its path holds; mergekit splits
    it. Where several splits are possible, the one whose parts exist counts.

    Args:
        names: of earlier documents, which win over folders of the same name, as in mergekit-multi.

    Raises:
        ValueError: the value names no model, or it is unclear which.
    """
    if isinstance(value, Reference):
        return value
    if isinstance(value, Mapping):
        return _from_mapping(value)
    if not isinstance(value, str) or not value:
        raise ValueError(f"found {value!r}, expected a folder or hub id")
    if _exists(value, names):
        return Reference(value)
    pluses = [at for at, letter in enumerate(value) if letter == "+"]
    pairs = [(_path(value[:at], names), _path(value[at + 1 :], ())) for at in pluses]
    known = [p for p in pairs if p[0] and p[1] and _exists(p[0][0], names) and _exists(p[1][0])]
    if not known and len(pairs) > 1:
        raise ValueError(f"{value!r} holds several +, and no way to split it names two folders")
    if pairs:
        model, adapter = (known or pairs)[0]
        if model is None or adapter is None:
            raise ValueError(f"{value!r}: a part around the + is empty or holds several @")
        return Reference(model[0], model[1], adapter[0], adapter[1])
    whole = _path(value, names)
    if whole is None:
        raise ValueError(f"{value!r} is no existing folder and holds several @")
    return Reference(*whole)


def _validate(value: Any, info: ValidationInfo) -> Reference:
    return parse_reference(value, info.context or ())


Model = Annotated[Reference, BeforeValidator(_validate)]
"""A field that holds a Reference; names of earlier documents come as pydantic's context."""


def _from_mapping(value: Mapping[str, Any]) -> Reference:
    if set(value) - {"model", "lora", "override_architecture"} or "model" not in value:
        raise ValueError(f"found {dict(value)!r}, expected a folder, or model: and lora:")
    if value.get("override_architecture"):
        raise ValueError(
            "override_architecture is not supported, and not needed: tensors are known from "
            "headers; remove it"
        )
    path, revision = _one(value["model"])
    adapter, adapter_revision = _one(value["lora"]) if value.get("lora") else (None, None)
    return Reference(path, revision, adapter, adapter_revision)


def _one(value: Any) -> tuple[str, str | None]:
    if isinstance(value, Mapping) and set(value) <= {"path", "revision"} and value.get("path"):
        return str(value["path"]), value.get("revision")
    found = _path(value, ()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"found {value!r}, expected a path, or path: and revision:")
    return found


def _path(text: str, names: Collection[str]) -> tuple[str, str | None] | None:
    """Path and revision of one part, None if it cannot be one."""
    if _exists(text, names) or "@" not in text:
        return (text, None) if text else None
    path, _, revision = text.partition("@")
    if not path or not revision or "@" in revision:
        return None
    # A folder has no revisions; mergekit reads it all the same.
    return (path, None if _exists(path, names) else revision)


def _exists(text: str, names: Collection[str] = ()) -> bool:
    return text in names or (bool(text) and Path(text).expanduser().is_dir())
