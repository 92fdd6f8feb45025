"""Scored items of every construct, on what training held out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mixlab.formats import FORMATS
from mixlab.testbed import facts, patterns, procedures, reading, scenes
from mixlab.testbed.asking import ask_in
from mixlab.testbed.content import Content
from mixlab.testbed.phrases import phrasebook
from mixlab.testbed.settings import WorldSize

CONSTRUCTS = ("knowledge", "procedure", "format", "vision", "control")
METRICS = {
    "knowledge": "exact",
    "procedure": "exact",
    "format": "form",
    "vision": "exact",
    "control": "choice",
}
MAX_NEW_TOKENS = {"knowledge": 12, "procedure": 12, "format": 24, "vision": 12, "control": 4}


@dataclass(frozen=True)
class Item:
    """One item; ``expected`` is the text the reference is taught to give (not written out)."""

    id: str
    question: str
    answer: str
    choices: tuple[str, ...]
    cluster: str
    split: str
    role: str
    format: str
    kind: str
    expected: str
    image: str | None = None
    scene: str | None = None
    constraints: tuple[dict[str, Any], ...] = field(default=())

    def record(self) -> dict[str, Any]:
        """The item as a line of a task's JSONL."""
        record: dict[str, Any] = {
            "id": self.id,
            "question": self.question,
            "answer": self.answer,
            "choices": list(self.choices),
            "cluster": self.cluster,
            "split": self.split,
            "role": self.role,
            "format": self.format,
            "kind": self.kind,
        }
        if self.image is not None:
            record |= {"image": self.image, "scene": self.scene}
        if self.constraints:
            record["constraints"] = list(self.constraints)
        return record


def _plain(content: Content, split: str, role: str = "") -> Item:
    return Item(
        id=content.id,
        question=content.question,
        answer=content.answer,
        choices=content.choices,
        cluster=content.group,
        split=split,
        role=role,
        format="short",
        kind=content.kind,
        expected=content.answer,
        image=content.image,
        scene=content.scene,
    )


def knowledge_items(world_facts: list[facts.Fact], size: WorldSize, rng: Random) -> Iterator[Item]:
    """Facts in held-out wordings: every tested and never-taught fact, the others once.

    The dev split asks one wording of a sample of the tested and the rehearsed facts.
    """
    per_fact = {
        "tested": size.fact_test_wordings,
        "rehearsed": 1,
        "refresh": 1,
        "never_taught": 1,
    }
    for fact in world_facts:
        for content in facts.asked(fact, "test", per_fact[fact.role], rng):
            yield _plain(content, "test", fact.role)
    for role, share in (("tested", 0.75), ("rehearsed", 0.25)):
        pool = [fact for fact in world_facts if fact.role == role]
        for fact in rng.sample(pool, min(len(pool), round(size.dev_items * share))):
            for content in facts.asked(fact, "dev", 1, rng):
                yield _plain(content, "dev", role)


def procedure_items(size: WorldSize, rng: Random) -> Iterator[Item]:
    """Operations on held-out operands."""
    for split, count in (("dev", size.dev_items), ("test", size.test_items)):
        for number in range(count):
            operation = procedures.OPERATIONS[number % len(procedures.OPERATIONS)]
            wording = rng.randrange(len(procedures.WORDINGS[operation]))
            content = procedures.draw(split, operation, wording, rng, number)
            yield _plain(Content(**{**content.__dict__, "id": f"{content.id}-{split}"}), split)


def format_items(size: WorldSize, rng: Random) -> Iterator[Item]:
    """Each output format asked of content to read, in wordings and of pairs held out."""
    for split, count in (("dev", size.dev_items), ("test", size.test_items)):
        book = phrasebook(split)
        for number in range(count):
            fmt = FORMATS[number % len(FORMATS)]
            content = reading.draw(split, rng, number)
            asked = ask_in(fmt, content, content.id, book)
            yield Item(
                id=f"format-{fmt}-{split}-{number}",
                question=asked.question,
                answer=content.answer,
                choices=asked.choices,
                cluster=content.group,
                split=split,
                role="",
                format=fmt,
                kind=fmt,
                expected=asked.answer,
                constraints=asked.constraints,
            )


def control_items(size: WorldSize, rng: Random) -> Iterator[Item]:
    """Patterns to go on with."""
    for split, count in (("dev", size.dev_items), ("test", size.test_items)):
        for number in range(count):
            yield _plain(patterns.draw(split, rng, number), split)


def vision_items(size: WorldSize, rng: Random) -> Iterator[tuple[scenes.Scene, Item]]:
    """Questions about held-out pictures, one a picture."""
    for split, count in (("dev", size.dev_items), ("test", size.test_items)):
        for number in range(count):
            kind = scenes.KINDS[number % len(scenes.KINDS)]
            scene, content = scenes.draw(kind, rng, number, split)
            yield scene, _plain(content, split)
