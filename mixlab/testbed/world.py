"""The world as one object: facts, items, training rows and vocabulary for a size and a seed."""

from dataclasses import dataclass
from random import Random
from typing import Any

from mixlab.formats import FORMATS
from mixlab.testbed import facts, items, lessons, patterns, phrases, procedures, reading, scenes
from mixlab.testbed.asking import ask_in, formats_of
from mixlab.testbed.content import Content
from mixlab.testbed.settings import WorldSize
from mixlab.testbed.tokenizer import words_of


@dataclass(frozen=True)
class World:
    """Everything that a build writes, before any model."""

    seed: int
    facts: tuple[facts.Fact, ...]
    items: dict[str, list[items.Item]]
    rows: dict[str, list[dict[str, Any]]]
    pictures: dict[str, tuple[scenes.Scene, str]]

    def curriculum(self) -> lessons.Curriculum:
        """All that the reference is taught."""
        return lessons.Curriculum(tuple(f for f in self.facts if f.role != "never_taught"))

    def vocabulary(self) -> list[str]:
        """Every token of the world's texts, sorted."""
        texts = [*phrases.all_texts(), lessons.CAPTION, "0 1 2 3 4 5 6 7 8 9 a b c d ( ) { }"]
        texts += [f.entity for f in self.facts]
        for nouns, values in facts.RELATIONS.values():
            texts += [*nouns, *values]
        for group in (facts.WORDINGS, procedures.WORDINGS, scenes.WORDINGS):
            texts += [
                t.format(n="", e="", a="", b="", s="", x="") for w in group.values() for t in w
            ]
        texts += [t.format(t="") for t in reading.QUESTIONS]
        texts += [t.format(s="") for t in patterns.WORDINGS]
        texts += [*reading.THINGS, *reading.STATES, "the is .", *patterns.WORDS]
        texts += [" ".join(procedures.LETTERS), *scenes.SHAPES, *scenes.PLURALS.values()]
        texts += [*scenes.COLOURS, *scenes.PLACES, *scenes.READABLE, "number word at the : ."]
        texts += ['{"answer": "a"}']
        return words_of(texts)

    def truth(self) -> dict[str, Any]:
        """The planted truth, for ``world.json``."""
        return {
            "seed": self.seed,
            "facts": [f.__dict__ for f in self.facts],
            "wordings": facts.WORDINGS,
            "operations": list(procedures.OPERATIONS),
            "formats": list(FORMATS),
            "pictures": {
                path: [None if c is None else [c.form, c.colour] for c in scene.cells]
                for path, (scene, _) in self.pictures.items()
                if not path.startswith("data/")
            },
        }


def make_world(size: WorldSize, seed: int) -> World:
    """Plant a world; the same size and seed give the same world."""

    def rng(purpose: str) -> Random:
        return Random(f"{purpose}-{seed}")

    planted = facts.make_facts(size, rng("facts"))
    pictures: dict[str, tuple[scenes.Scene, str]] = {}
    vision = []
    for scene, item in items.vision_items(size, rng("vision-items")):
        pictures[f"tasks/{item.image}"] = (scene, str(item.image))
        vision.append(item)
    made = {
        "knowledge": list(items.knowledge_items(planted, size, rng("knowledge-items"))),
        "procedure": list(items.procedure_items(size, rng("procedure-items"))),
        "format": list(items.format_items(size, rng("format-items"))),
        "control": list(items.control_items(size, rng("control-items"))),
        "vision": vision,
    }
    rows = {
        f"facts_{role}": [
            row(content)
            for fact in planted
            if fact.role == role
            for content in facts.asked(fact, "train", size.fact_rows, rng(f"{fact}"))
        ]
        for role in ("rehearsed", "refresh")
    }
    rows["procedures"] = _procedure_rows(size, rng("procedure-rows"))
    reading_rng = rng("format-rows")
    rows["format"] = [row(reading.draw("train", reading_rng, n)) for n in range(size.format_rows)]
    rows["vision_train"], train_pictures = _vision_rows(size, rng("vision-rows"))
    return World(seed, tuple(planted), made, rows, {**pictures, **train_pictures})


def row(content: Content) -> dict[str, Any]:
    """A training row with a rendering for each format it takes; ``short`` is the plain question."""
    book = phrases.phrasebook("train")
    renderings = {}
    for fmt in formats_of(content):
        asked = ask_in(fmt, content, content.id, book)
        renderings[fmt] = {"question": asked.question, "answer": asked.answer}
    renderings["short"] = {"question": content.question, "answer": content.answer}
    made: dict[str, Any] = {
        "id": content.id,
        "question": content.question,
        "answer": content.answer,
        "kind": content.kind,
        "group": content.group,
    }
    if content.choices:
        made["choices"] = list(content.choices)
    if content.image is not None:
        made |= {"image": content.image, "scene": content.scene}
    return made | {"renderings": renderings}


def _procedure_rows(size: WorldSize, rng: Random) -> list[dict[str, Any]]:
    rows = []
    for number in range(size.procedure_rows):
        operation = procedures.OPERATIONS[number % len(procedures.OPERATIONS)]
        wording = rng.randrange(len(procedures.WORDINGS[operation]))
        rows.append(row(procedures.draw("train", operation, wording, rng, number)))
    return rows


def _vision_rows(
    size: WorldSize, rng: Random
) -> tuple[list[dict[str, Any]], dict[str, tuple[scenes.Scene, str]]]:
    """Training pictures with their questions: kinds that a picture can answer, in turn."""
    rows, pictures = [], {}
    for number in range(size.vision_images):
        kind = scenes.KINDS[number % len(scenes.KINDS)]
        scene = scenes.MAKERS[kind](rng)
        kinds = [kind]
        if kind in ("shape", "colour", "position"):
            others = [k for k in ("shape", "colour", "position") if k != kind]
            kinds += rng.sample(others, min(size.questions_per_image - 1, 2))
        for which, asked in enumerate(kinds):
            content = scenes.content(scene, asked, rng, "train", number, which)
            rows.append(row(content))
        pictures[f"data/images/train-{number:05d}.png"] = (scene, f"train-{number:05d}")
    return rows, pictures
