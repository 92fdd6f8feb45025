"""Which files hold a folder's weights: the index and the links, checked before one is opened."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mixlab.checkpoint._header import open_file
from mixlab.spec import MixlabError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# An index of 300 thousand tensors; JSON may take twenty times its size in memory.
_JSON_LIMIT = 32_000_000
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_MEND = "copy or download the file again"


def weight_files(folder: str | Path) -> list[Path]:
    """The safetensors files of a Hugging Face folder, in name order.

    Raises:
        MixlabError: there are none (with the way to convert pickled weights), or the index names a
            shard that is missing or lies outside the folder.
    """
    folder = Path(folder)
    index = read_index(folder)
    return [folder / name for name in sorted({SINGLE} if index is None else set(index.values()))]


def read_index(folder: Path) -> dict[str, str] | None:
    """The index as tensor -> file name, every file checked; None: all is in `model.safetensors`.

    Raises:
        MixlabError: as `weight_files`; also where the folder holds two sets of weights.
    """
    index, single = folder / INDEX, folder / SINGLE
    if not os.path.lexists(index):
        if not os.path.lexists(single):
            raise MixlabError(_no_weights(folder))
        check_inside(folder, SINGLE)
        return None
    check_inside(folder, INDEX)
    weights = read_json_object(index, unique=True).get("weight_map")
    if not isinstance(weights, dict) or not weights:
        raise MixlabError(f"{index}: not a valid index: it has no weight_map of files; {_MEND}")
    for name, file_name in weights.items():
        if not name.isprintable():
            raise MixlabError(f"{index}: {name!a:.100} is no tensor name; {_MEND}")
        if not isinstance(file_name, str) or not is_bare(file_name):
            raise MixlabError(
                f"{index}: tensor {name}: {file_name!r:.100} is not a bare file name, and could "
                f"lead out of the folder; {_MEND}"
            )
    for file_name in sorted(set(weights.values())):
        if not file_name.endswith(".safetensors"):
            raise MixlabError(f"{index} names {file_name}, which is no safetensors file; refused")
        if not os.path.lexists(folder / file_name):
            raise MixlabError(f"{index} names {file_name}, which is missing; {_MEND}")
        check_inside(folder, file_name)
    if os.path.lexists(single) and SINGLE not in weights.values():
        raise MixlabError(
            f"{folder} holds two sets of weights: {SINGLE}, and an index of other files. Remove "
            "the one that is out of date"
        )
    return weights


def is_bare(name: str) -> bool:
    """Whether a text names a file of its folder and nothing else."""
    return (
        name not in {"", ".", ".."} and not any(c in name for c in "/\\\0") and name.isprintable()
    )


def check_inside(folder: Path, name: str) -> None:
    """Refuse a link that leaves the folder.

    The cache of the Hugging Face hub is known: in `models--*/snapshots/*` a file may be a link
    into `blobs` of the same `models--*`.

    Raises:
        MixlabError: naming the link and where it leads.
    """
    path = folder / name
    try:
        root, real = folder.resolve(), path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MixlabError(f"{path}: cannot be read: {reason}; {_MEND}") from error
    if real.is_relative_to(root):
        return
    for cache in root.parents:
        if cache.name.startswith("models--"):
            inner = root.relative_to(cache).parts
            if inner[0] == "snapshots" and real.parent == cache / "blobs":
                return
            break
    raise MixlabError(
        f"{path} is a link that leaves its folder (to {real}); refused. Copy the file into the "
        "folder, or give the folder that it stands in"
    )


def read_json_object(path: Path, *, unique: bool = False) -> dict[str, Any]:
    """A JSON object from a stranger: bounded in size, UTF-8.

    Raises:
        MixlabError: the file is missing, too long or no such object; or, with `unique`, a key
            stands twice in it.
    """
    descriptor = open_file(path)
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(_JSON_LIMIT + 1)
    if len(text) > _JSON_LIMIT:
        raise MixlabError(f"{path}: longer than {_JSON_LIMIT} bytes; is it the right file?")
    try:
        found = json.loads(text.decode(), object_pairs_hook=_unique if unique else None)
    except (ValueError, RecursionError) as error:
        raise MixlabError(f"{path}: not valid JSON: {error}; {_MEND}") from error
    if not isinstance(found, dict):
        raise MixlabError(f"{path}: expected a JSON object, found {found!r:.40}; {_MEND}")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r:.100} stands in it twice")
        found[key] = value
    return found


def _no_weights(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder}: no such model folder"
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        return f"{folder}: cannot be read: {error.strerror}; mend its permissions"
    pickled = [name for name in names if name.endswith(_PICKLED)]
    if pickled:
        return (
            f"{folder}: only pickled weights ({pickled[0]}), which can run code when read; load it "
            "once with transformers and call save_pretrained() to convert it to safetensors"
        )
    if "adapter_config.json" in names:
        return f"{folder}: an adapter (adapter_config.json), not a whole model; give its base too"
    return f"{folder}: no {SINGLE} and no {INDEX}; is it a model folder?"
