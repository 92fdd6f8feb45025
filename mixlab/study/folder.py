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
_OWN = {".lock", ".workers"}


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


def claim(
    folder: Path,
    *,
    file: str,
    spec: SweepSpec,
    given: Any,
    resolved: dict[str, Any],
    identity: dict[str, Any],
) -> dict[str, Any]:
    """Write `study.json`, or check that the one which is there asks for the same.

    `trials` may differ: more trials extend a study. The caller holds the folder's lock.

    Raises:
        MixlabError: the folder holds other files, another study, or this one with other settings.
    """
    clean_temporaries(folder)
    marker = folder / "study.json"
    start = {
        "command": shlex.join(["mixlab", *sys.argv[1:]]),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    asked = {
        key: value
        for key, value in spec.model_dump(mode="json").items()
        if key not in _MAY_CHANGE and key != "arm"
    } | {"arm": resolved, "identity": identity}
    if not marker.exists():
        others = sorted(p.name for p in folder.iterdir() if p.name not in _OWN)
        if others:
            raise MixlabError(
                f"{folder} holds other files ({', '.join(others[:3])}) and no study. Choose an "
                "empty or new folder with --out."
            )
        record = {
            "name": spec.name,
            "file": file,
            "given": given,
            "spec": spec.model_dump(mode="json"),
            "resolved": asked,
            "digest": digest(asked),
            "provenance": provenance(spec),
            "starts": [start],
        }
        write_json(marker, record)
        return record
    try:
        record = json.loads(marker.read_text())
        held = record["resolved"]
    except (ValueError, KeyError, TypeError) as error:
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
    record["spec"] = spec.model_dump(mode="json")
    record["starts"] = [*record.get("starts", []), start]
    write_json(marker, record)
    return dict(record)
