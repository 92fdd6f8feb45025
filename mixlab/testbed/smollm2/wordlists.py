"""What a word begins with, what a list ends with: items, and training rows on other words."""

from random import Random
from typing import Any

from mixlab.testbed.smollm2.item import Question, shuffled

WORDS = ["apple", "river", "table", "stone", "cloud", "house", "green", "paper", "light", "music", "bread", "chair", "winter", "flower", "garden", "silver", "rabbit", "window", "market", "bridge", "orange", "candle", "pencil", "ocean", "forest", "button", "ladder", "kitten", "tunnel", "basket", "pocket", "mirror", "island", "yellow", "planet", "dragon", "hammer", "carpet", "jacket", "lemon", "turtle", "violin", "wagon", "zebra", "nurse", "doctor", "engine", "feather", "guitar", "honey", "anchor", "bottle", "camera", "dinner", "elephant", "family", "giant", "hotel", "insect", "jungle", "kettle", "lion", "monkey", "needle", "onion", "parrot", "queen", "rocket", "snake", "tiger", "uncle", "village", "water", "yogurt", "animal", "branch", "castle", "desert", "eagle", "finger", "grape", "hill", "iron", "jewel", "king", "lamp", "mouse", "night", "owl", "piano", "rain", "sugar", "train", "umbrella", "valley", "wheel", "young", "army", "bell", "corn", "duck", "evening", "frog", "glass", "hand"]
DEV, TRAIN = 12, 12


def word_questions(
    seed: int, test: int, dev: int = DEV
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Items (`dev` and at most `test` of both kinds) and training rows on other words."""
    order = shuffled(WORDS, "words", seed)
    parts = {
        "train": order[:TRAIN],
        "dev": order[TRAIN : TRAIN + dev],
        "test": order[TRAIN + dev :],
    }
    items: list[dict[str, Any]] = []
    for split in ("dev", "test"):
        count = dev if split == "dev" else test
        words = parts[split]
        asked = [_first_letter(word) for word in words[:count]]
        rng = Random(f"lists-{split}-{seed}")
        asked += [_last_word(split, number, rng.sample(words, 3)) for number in range(count)]
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


def _last_word(split: str, number: int, words: list[str]) -> Question:
    listed = ", ".join(words)
    wordings = (
        f"What is the last word in this list: {listed}?",
        f"Which word comes last in this list: {listed}?",
    )
    key = f"last-word-{split}-{number}"
    return Question(key, wordings, words[2], "last word", key, choices=tuple(words))
