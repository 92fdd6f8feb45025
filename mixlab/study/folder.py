"""The study's folder: whose it is, and whether the sweep file still says the same."""

import json
import os
import platform
import shlex
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mixlab import MixlabError
from mixlab.store import canonical_json, clean_temporaries, digest, write_json
from mixlab.study.sweepfile import SweepSpec

_PACKAGES = (
    "mixlab", "torch", "transformers", "accelerate", "optuna", "datasets", "numpy", "pandas",
    "scipy", "statsmodels", "pyarrow", "safetensors", "pillow",
)  # fmt: skip
_MAY_CHANGE = ("trials",)
_OWN = {".lock", ".workers", "logs", "log.txt"}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {
            name: item
            for key, part in value.items()
            for name, item in _flat(part, f"{prefix}{key}.").items()
        }
    return {prefix.rstrip("."): value}


def difference(old: Any, new: Any) -> list[str]:
    """`arm.steps: 200 -> 150`, one line for each setting that differs."""
    before, after = _flat(old), _flat(new)
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f"{name}: not set -> {after[name]!r}")
        elif name not in after:
            lines.append(f"{name}: {before[name]!r} -> not set")
        elif canonical_json(before[name]) != canonical_json(after[name]):
            lines.append(f"{name}: {before[name]!r} -> {after[name]!r}")
    return lines


def provenance(spec: SweepSpec) -> dict[str, Any]:
    """What a reader needs to make the numbers again: versions, machine, command."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": spec.threads,
        "seeds": spec.seeds,
        "sampler_seed": spec.seed,
    }


def free_name(out: Path) -> Path:
    """`out`, or `out-2`, `out-3`, ...: the first that is not taken."""
    candidates = [out, *(out.with_name(f"{out.name}-{n}") for n in range(2, 10_000))]
    return next(path for path in candidates if not path.exists())


def asked_for(spec: SweepSpec, recipe: dict[str, Any]) -> dict[str, Any]:
    """What a study is known by: all settings but those that may change."""
    settings = spec.model_dump(mode="json", exclude={"arm", *_MAY_CHANGE})
    return settings | {"arm": recipe}


def check(folder: Path, spec: SweepSpec, asked: dict[str, Any]) -> dict[str, Any] | None:
    """The study record in `folder`, None if there is none yet. Writes nothing.

    Args:
        asked: settings that must be those of the record; keys that are not in it are not compared.

    Raises:
        MixlabError: the folder holds other files, another study, or this one with other settings.
    """
    marker = folder / "study.json"
    if not marker.exists():
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        others = sorted(name for name in names if name not in _OWN)
        if others:
            raise MixlabError(
                f"{folder} holds other files ({', '.join(others[:3])}) and no study. Choose an "
                "empty or new folder with --out."
            )
        return None
    try:
        record = json.loads(marker.read_text())
        held = {key: record["resolved"].get(key) for key in asked}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MixlabError(
            f"{marker} is no study record ({error}). Choose another folder with --out."
        ) from error
    if record["name"] != spec.name:
        raise MixlabError(
            f"{folder} holds another study, {record['name']!r}; this sweep is {spec.name!r}. "
            "Choose another folder with --out."
        )
    changes = difference(held, asked)
    if changes:
        raise MixlabError(
            f"{folder} was started with other settings:\n  "
            + "\n  ".join(changes)
            + "\nSet them back to go on, or start beside it with --new (or --out FOLDER)."
        )
    return dict(record)


def claim(folder: Path, spec: SweepSpec, *, file: str, given: Any, asked: dict[str, Any]) -> None:
    """Write `study.json`, or add this start to it. The caller holds the folder's lock.

    Raises:
        MixlabError: as `check` does.
    """
    clean_temporaries(folder)
    record = check(folder, spec, asked) or {
        "name": spec.name,
        "file": file,
        "given": given,
        "resolved": asked,
        "digest": digest(asked),
        "provenance": provenance(spec),
    }
    record["spec"] = spec.model_dump(mode="json")
    start = {
        "command": shlex.join(["mixlab", *sys.argv[1:]]),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    record["starts"] = [*record.get("starts", []), start]
    write_json(folder / "study.json", record)
