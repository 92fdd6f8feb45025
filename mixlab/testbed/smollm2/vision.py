"""The testbed's pictures with questions in English: training rows, items and scenes.

One form alone is asked about by shape, colour and place: a few dozen steps of an arm teach this
model to name what it sees, not yet to tell several forms apart.
"""

from random import Random
from typing import Any

from mixlab.testbed.content import Content, options
from mixlab.testbed.scenes import (
    COLOURS,
    MAKERS,
    NUMBERS,
    PLACES,
    PLURALS,
    READABLE,
    SHAPES,
    Cell,
    Scene,
)

KINDS = ("shape", "colour", "position", "count", "digits", "word")
WORDINGS: dict[str, tuple[str, ...]] = {
    "shape": ("What shape is shown?", "Which shape is in the picture?"),
    "colour": ("What colour is the shape?", "Which colour does the shape have?"),
    "position": ("Where is the shape?", "In which place is the shape?"),
    "count": ("How many {x} are there?", "What is the number of {x}?"),
    "digits": ("What number is shown?", "Read the number in the picture."),
    "word": ("What word is shown?", "Read the word in the picture."),
}
POOLS: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "colour": tuple(COLOURS),
    "position": PLACES,
    "count": ("1", "2", "3", "4", "5"),
    "digits": NUMBERS,
    "word": READABLE,
}


def _draw(kind: str, rng: Random) -> tuple[Scene, str, str]:
    """A scene, the answer, and the word that the question's {x} stands for."""
    if kind in ("shape", "colour", "position"):
        place, cell = rng.randrange(9), Cell(rng.choice(SHAPES), rng.choice(sorted(COLOURS)))
        scene = Scene(tuple(cell if at == place else None for at in range(9)))
        return scene, {"shape": cell.form, "colour": cell.colour}.get(kind, PLACES[place]), ""
    scene = MAKERS[kind](rng)
    forms = [cell.form for cell in scene.cells if cell is not None]
    if kind == "count":
        counted = max(sorted(set(forms)), key=forms.count)
        return scene, str(forms.count(counted)), PLURALS[counted]
    return scene, "".join(forms), ""


def pictures(split: str, count: int, seed: int) -> list[tuple[Scene, Content]]:
    """`count` fresh scenes, the kinds of question in turn."""
    rng = Random(f"smollm2-vision-{split}-{seed}")
    made = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        scene, answer, counted = _draw(kind, rng)
        name = f"{split}-{number:05d}"
        content = Content(
            id=f"vision-{name}",
            question=rng.choice(WORDINGS[kind]).format(x=counted),
            answer=answer,
            choices=options(answer, POOLS[kind]),
            kind=kind,
            group=name,
            image=f"images/{name}.png",
            scene=scene.text(),
        )
        made.append((scene, content))
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
