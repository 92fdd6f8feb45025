"""A world on disk: JSONL rows, task YAML with items, pictures, and the planted truth."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from mixlab.testbed.items import CONSTRUCTS, MAX_NEW_TOKENS, METRICS
from mixlab.testbed.pictures import draw_scene
from mixlab.testbed.world import World


def write_world(world: World, folder: Path) -> None:
    """Write ``data/``, ``tasks/`` and ``world.json`` under a folder that nobody else reads yet."""
    for name in ("data/images", "tasks/images"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, rows in world.rows.items():
        _write_lines(folder / "data" / f"{name}.jsonl", rows)
    for construct in CONSTRUCTS:
        _write_lines(
            folder / "tasks" / f"{construct}.jsonl", (i.record() for i in world.items[construct])
        )
        task = {
            "name": construct,
            "construct": construct,
            "items": f"{construct}.jsonl",
            "metric": METRICS[construct],
            "max_new_tokens": MAX_NEW_TOKENS[construct],
        }
        path = folder / "tasks" / f"{construct}.yaml"
        path.write_text(yaml.safe_dump(task, sort_keys=False), encoding="utf-8")
    for name, (scene, _) in world.pictures.items():
        draw_scene(scene, Random(f"{name}-{world.seed}")).save(folder / name)
    (folder / "world.json").write_text(json.dumps(world.truth()), encoding="utf-8")


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
