"""What a word begins with, what a list ends with: items, and training rows on other words."""

from random import Random
from typing import Any

from mixlab.testbed.smollm2.item import Question, shuffled
from mixlab.testbed.smollm2.words import words

WORDS = words("listed")
DEV, TRAIN = 12, 12


def word_questions(
    seed: int, test: int, dev: int = DEV
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Items (`dev` and at most `test` of both kinds) and training rows on other words."""
    order = shuffled(list(WORDS), "words", seed)
    parts = {
        "train": order[:TRAIN],
        "dev": order[TRAIN : TRAIN + dev],
        "test": order[TRAIN + dev :],
    }
    items: list[dict[str, Any]] = []
    for split in ("dev", "test"):
        count = dev if split == "dev" else test
        pool = parts[split]
        asked = [_first_letter(word) for word in pool[:count]]
        rng = Random(f"lists-{split}-{seed}")
        asked += [_last_word(split, number, rng.sample(pool, 3)) for number in range(count)]
        items += [question.item(number, split) for number, question in enumerate(asked)]
    rng = Random(f"lists-train-{seed}")
    taught = [_first_letter(word) for word in parts["train"]]
    taught += [_last_word("train", n, rng.sample(parts["train"], 3)) for n in range(TRAIN)]
    return items, [question.row(number) for number, question in enumerate(taught)]


def _first_letter(word: str) -> Question:
    wordings = (
        f'What is the first letter of the word "{word}"?',
        f'Name the first letter of the word "{word}".',
    )
    return Question(
        f"first-letter-{word}", wordings, word[0].upper(), "first letter", f"word-{word}"
    )


def _last_word(split: str, number: int, listed: list[str]) -> Question:
    shown = ", ".join(listed)
    wordings = (
        f"What is the last word in this list: {shown}?",
        f"Which word comes last in this list: {shown}?",
    )
    key = f"last-word-{split}-{number}"
    return Question(key, wordings, listed[2], "last word", key, choices=tuple(listed))
