"""The testbed's pictures with questions in English: training rows, items and scenes."""

from dataclasses import replace
from random import Random
from typing import Any

from mixlab.testbed.content import Content
from mixlab.testbed.scenes import KINDS, Scene, draw

CAPTION = "Describe the picture."


def _english(content: Content) -> Content:
    question = content.question
    return replace(content, question=question[0].upper() + question[1:])


def pictures(split: str, count: int, seed: int) -> list[tuple[Scene, Content]]:
    """`count` fresh scenes, the kinds of question in turn."""
    rng = Random(f"smollm2-vision-{split}-{seed}")
    made = []
    for number in range(count):
        scene, content = draw(KINDS[number % len(KINDS)], rng, number, split)
        made.append((scene, _english(content)))
    return made


def vision_rows(shown: list[tuple[Scene, Content]]) -> list[dict[str, Any]]:
    """Training rows with a short answer, the picture's path and the scene's text."""
    return [
        {
            "id": content.id,
            "question": content.question,
            "answer": content.answer,
            "choices": list(content.choices),
            "image": content.image,
            "scene": content.scene,
            "kind": content.kind,
            "group": content.group,
        }
        for _, content in shown
    ]


def vision_items(shown: list[tuple[Scene, Content]], split: str) -> list[dict[str, Any]]:
    """The same as items of a task."""
    return [
        row | {"cluster": row.pop("group"), "split": split, "role": "", "format": "short"}
        for row in vision_rows(shown)
    ]
