"""The task files of the pair, and their placebo: the same items in another wording."""

import json
from pathlib import Path
from random import Random
from typing import Any

import yaml

from mixlab.testbed.pictures import draw_scene
from mixlab.testbed.smollm2.control import control_items
from mixlab.testbed.smollm2.instructions import instruction_items
from mixlab.testbed.smollm2.knowledge import knowledge
from mixlab.testbed.smollm2.size import PairSize
from mixlab.testbed.smollm2.sums import sums
from mixlab.testbed.smollm2.vision import pictures, vision_items, vision_rows
from mixlab.testbed.smollm2.wordlists import word_questions

Row = dict[str, Any]

# name: construct, metric, longest answer in tokens, template. A sum has one or two digits and its
# blank, so three tokens hold the answer and no next line.
TASKS: dict[str, tuple[str, str, int, str]] = {
    "knowledge": ("knowledge", "exact", 16, "chat"),
    "sums": ("procedure", "exact", 3, "plain"),
    "words": ("procedure", "exact", 16, "chat"),
    "format": ("format", "form", 40, "chat"),
    "control": ("control", "choice", 1, "plain"),
    "vision": ("vision", "exact", 8, "chat"),
}
PLACEBO = "placebo"


def text_items(size: PairSize, seed: int) -> tuple[dict[str, list[Row]], list[Row]]:
    """Items of every text task, and training rows with short answers on other content."""
    facts, fact_rows = knowledge(seed)
    summed, sum_rows = sums(seed, size.sum_test, size.sum_dev)
    worded, word_rows = word_questions(seed, size.word_test, size.word_dev)
    items = {
        "knowledge": facts,
        "sums": summed,
        "words": worded,
        "format": instruction_items(seed, size.instruction_dev, size.instruction_test),
        "control": control_items(seed, size.control_dev, size.control_test),
    }
    return items, fact_rows + sum_rows + word_rows


def write_tasks(folder: Path, items: dict[str, list[Row]]) -> None:
    """`NAME.yaml` and `NAME.jsonl` of every task, and both again under `placebo/` for text."""
    for name, rows in items.items():
        _write(folder, name, rows)
        if name != "vision":
            _write(folder / PLACEBO, name, [row | {"question": row["paraphrase"]} for row in rows])


def _write(folder: Path, name: str, rows: list[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    construct, metric, longest, template = TASKS[name]
    task = {
        "name": name,
        "construct": construct,
        "items": f"{name}.jsonl",
        "metric": metric,
        "max_new_tokens": longest,
        "template": template,
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(task, sort_keys=False), encoding="utf-8")
    kept = ({k: v for k, v in row.items() if k != "paraphrase"} for row in rows)
    write_rows(folder / f"{name}.jsonl", kept)


def write_rows(path: Path, rows: Any) -> None:
    """One JSON object a line."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def write_vision(folder: Path, size: PairSize, seed: int) -> list[Row]:
    """Pictures of all splits, `data/vision_train.jsonl`; returns the task's items."""
    made = {
        "train": pictures("train", size.pictures, seed),
        "dev": pictures("dev", size.vision_dev, seed),
        "test": pictures("test", size.vision_test, seed),
    }
    for split, shown in made.items():
        place = folder / ("data" if split == "train" else "tasks")
        (place / "images").mkdir(parents=True, exist_ok=True)
        for scene, content in shown:
            picture = draw_scene(scene, Random(f"{content.image}-{seed}"))
            picture.save(place / str(content.image))
    write_rows(folder / "data" / "vision_train.jsonl", vision_rows(made["train"]))
    return [row for split in ("dev", "test") for row in vision_items(made[split], split)]
