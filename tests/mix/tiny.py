"""A tiny encoder of the contract's shape, and sources written to disk."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mixlab.spec import MixlabError


@dataclass
class TinyExample:
    input_ids: np.ndarray
    supervised: np.ndarray
    pixel_values: np.ndarray | None = None


class TinyEncoder:
    """One token a word; an image takes four; the stop token (1) is supervised."""

    pad_id = 0
    stop_ids = (1,)

    def __init__(self, max_length: int | None = None, digest: str = "tiny") -> None:
        self.digest = f"{digest}-{max_length}"
        self.max_length = max_length
        self.calls = 0

    def encode_example(self, messages: list[dict[str, Any]], image: Any = None) -> TinyExample:
        self.calls += 1
        ids: list[int] = [2] * 4 if image is not None else []
        supervised = [False] * len(ids)
        for message in messages:
            words = [10 + sum(word.encode()) % 500 for word in message["content"].split()]
            answers = message["role"] == "assistant"
            ids += [*words, 1]
            supervised += [answers] * (len(words) + 1)
        if self.max_length is not None and len(ids) > self.max_length:
            raise MixlabError(
                f"tiny: {len(ids)} tokens, more than the context of {self.max_length}"
            )
        pixels = None
        if image is not None:
            with Image.open(image) as opened:
                pixels = np.asarray(opened.convert("RGB"), np.float32).transpose(2, 0, 1)
        return TinyExample(np.array(ids, np.int32), np.array(supervised), pixels)


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_image(path: Path, shade: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (shade % 256, 0, 0)).save(path)
    return path


def text_rows(count: int, words: int = 1, choices: bool = True) -> list[dict[str, Any]]:
    """Rows whose short answer has `words` words, so `words + 1` supervised tokens."""
    return [
        {
            "id": f"t{i}",
            "question": f"what is {i} ?",
            "answer": " ".join(f"w{i}x{j}" for j in range(words)),
            **(
                {"choices": [" ".join(f"w{i}x{j}" for j in range(words)), "u", "v"]}
                if choices
                else {}
            ),
        }
        for i in range(count)
    ]
