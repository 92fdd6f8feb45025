"""A tiny random pair, and tasks of made-up items over it; fixtures for the rooms that score."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from tiny_pair import write_pair

from mixlab.models import LoadedModel, load_model
from mixlab.score import Task, load_task

WORDS = [
    "red",
    "blue",
    "green",
    "one",
    "two",
    "three",
    "four",
    "round",
    "square",
    "tall",
    "small",
    "north",
    "south",
]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def lm(folders: tuple[Path, Path]) -> LoadedModel:
    return load_model(folders[0], device="cpu")


@pytest.fixture(scope="session")
def vlm(folders: tuple[Path, Path]) -> LoadedModel:
    return load_model(folders[1], device="cpu")


def write_task(folder: Path, name: str, rows: list[dict], **settings: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(lines)
    path = folder / f"{name}.yaml"
    values = {
        "name": name,
        "construct": "knowledge",
        "metric": "exact",
        "max_new_tokens": 6,
        "items": f"{name}.jsonl",
        **settings,
    }
    path.write_text(yaml.safe_dump(values))
    return path


def text_rows(count: int, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [
        {
            "id": f"t{number}",
            "question": " ".join(rng.choice(WORDS, rng.integers(1, 9))) + f" {number}",
            "answer": str(rng.choice(WORDS)),
            "split": "dev" if number % 3 == 0 else "test",
            "cluster": f"c{number % 5}",
        }
        for number in range(count)
    ]


def vision_rows(folder: Path, count: int, seed: int = 1) -> list[dict]:
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        name = f"images/{number // 2}.png"
        if number % 2 == 0:
            pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name)
        rows.append(
            {
                "id": f"v{number}",
                "question": f"what {WORDS[number % 7]}?",
                "answer": str(rng.choice(WORDS)),
                "image": name,
                "kind": ("colour", "count")[number % 2],
                "split": "test",
            }
        )
    return rows


@pytest.fixture
def text_task(tmp_path: Path) -> Task:
    return load_task(write_task(tmp_path, "text", text_rows(40)))


@pytest.fixture
def vision_task(tmp_path: Path) -> Task:
    rows = vision_rows(tmp_path, 12)
    return load_task(write_task(tmp_path, "vision", rows, construct="vision"))
