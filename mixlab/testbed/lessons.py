"""What the reference is taught: an endless, seeded mix of everything but the never-taught."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from mixlab.formats import FORMATS
from mixlab.testbed import facts, patterns, procedures, reading, scenes
from mixlab.testbed.asking import ask_in, formats_of
from mixlab.testbed.content import Content
from mixlab.testbed.phrases import SPLITS, phrasebook

CAPTION = "describe the picture."

# Shares of the lessons by subject, and of plain (uninstructed, short) questions within each.
SHARES = {"facts": 0.30, "procedures": 0.34, "reading": 0.20, "scenes": 0.06, "patterns": 0.10}
PLAIN = {"facts": 0.85, "procedures": 0.9, "reading": 0.1, "scenes": 0.85, "patterns": 1.0}


@dataclass(frozen=True)
class Curriculum:
    """What may be taught; a naive lineage leaves some of it out."""

    facts: tuple[facts.Fact, ...]
    operations: tuple[str, ...] = procedures.OPERATIONS
    formats: tuple[str, ...] = FORMATS

    def lessons(self, count: int, seed: int) -> Iterator[tuple[str, str]]:
        """``count`` pairs of prompt and answer, the same for the same seed."""
        rng = Random(f"lessons-{seed}")
        subjects = [s for s in SHARES if (s != "facts" or self.facts)]
        subjects = [s for s in subjects if s != "procedures" or self.operations]
        weights = [SHARES[s] for s in subjects]
        books = {"reading": phrasebook(*SPLITS), "other": phrasebook("train")}
        deck: list[facts.Fact] = []
        for number in range(count):
            subject = rng.choices(subjects, weights)[0]
            if subject == "facts":
                # A shuffled deck shows every fact equally often, which plain sampling does not.
                if not deck:
                    deck = rng.sample(self.facts, len(self.facts))
                content = next(facts.asked(deck.pop(), "train", 1, rng))
            elif subject == "scenes" and rng.random() < 0.25:
                yield _description(rng)
                continue
            else:
                content = self._draw(subject, rng, number)
            possible = [f for f in self.formats if f in formats_of(content)]
            if rng.random() < PLAIN[subject] or not possible:
                yield content.question, content.answer
                continue
            book = books.get(subject, books["other"])
            asked = ask_in(rng.choice(possible), content, f"{seed}-{number}", book)
            yield asked.question, asked.answer

    def _draw(self, subject: str, rng: Random, number: int) -> Content:
        if subject == "procedures":
            # Sums take longest to learn.
            weights = [2 if name == "add" else 1 for name in self.operations]
            operation = rng.choices(self.operations, weights)[0]
            wording = rng.randrange(len(procedures.WORDINGS[operation]))
            return procedures.draw("train", operation, wording, rng, number)
        if subject == "reading":
            return reading.draw("train", rng, number)
        if subject == "patterns":
            return patterns.draw("train", rng, number)
        kind = rng.choice(scenes.KINDS)
        scene, asked = scenes.draw(kind, rng, number, "train")
        return Content(**{**asked.__dict__, "question": f"{scene.text()} {asked.question}"})


def _description(rng: Random) -> tuple[str, str]:
    """Parts of a scene in any order, to be told in reading order (a caption without picture)."""
    text = scenes.MAKERS[rng.choice(scenes.KINDS)](rng).text()
    parts = [f"{part.rstrip('.')}." for part in text.split(". ")]
    rng.shuffle(parts)
    return f"{' '.join(parts)} {CAPTION}", text
