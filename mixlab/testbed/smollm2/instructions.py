"""Instructions whose following can be verified, each with content that must be there too."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from mixlab.testbed.smollm2.item import Question, shuffled
from mixlab.testbed.smollm2.words import words

Constraint = dict[str, Any]

TOPICS: dict[str, tuple[str, ...]] = {
    split: words(f"topics_{split}") for split in ("dev", "test", "train")
}
ADJECTIVES, NOUNS = words("adjectives"), words("nouns")


@dataclass(frozen=True)
class Kind:
    """One kind and level of constraint: two wordings of the instruction, and the checks.

    Wordings hold {t} (topic), {a} (adjective), {n} (noun). `replayed` kinds may stand in the
    training rows, with other content; the rest stand in none.
    """

    wordings: tuple[str, str]
    check: Callable[[str, str, str], tuple[Constraint, ...]]
    replayed: bool


def _length(count: int, relation: str = "at least") -> Constraint:
    return {"kind": "words", "count": count, "relation": relation}


def _has(text: str) -> Constraint:
    return {"kind": "contains", "text": text}


def _begins(text: str) -> Constraint:
    return {"kind": "begins_with", "text": text}


def _plain(*constraints: Constraint) -> Callable[[str, str, str], tuple[Constraint, ...]]:
    return lambda t, a, n: constraints


# Chosen on dev topics: the reference follows each between 30% and 90% of the time there. The
# rates are measured again at every build and stand in its build.json.
KINDS: dict[str, Kind] = {
    "two keywords": Kind(
        (
            'Write a sentence about the {t}. Include the words "{a}" and "{n}".',
            'Write one sentence about the {t} that has the words "{a}" and "{n}" in it.',
        ),
        lambda t, a, n: (_has(a), _has(n), _length(5)),
        True,
    ),
    "at most 18 words": Kind(
        ("Describe the {t} in at most 18 words.", "Describe the {t}. Use at most 18 words."),
        _plain(_length(18, "at most"), _length(5)),
        True,
    ),
    "two sentences": Kind(
        (
            "Tell me two things about the {t}. Use two sentences.",
            "Give two facts about the {t} in two sentences.",
        ),
        _plain({"kind": "sentences", "count": 2}, _length(6)),
        False,
    ),
    "no comma": Kind(
        (
            "Write one short sentence about the {t}. Do not use commas.",
            "Write a short sentence about the {t} without commas.",
        ),
        _plain({"kind": "no_comma"}, _length(5)),
        False,
    ),
    "three numbered words": Kind(
        (
            "Give three short words about the {t} as a numbered list.",
            "List three words about the {t}. Number them.",
        ),
        _plain({"kind": "numbered", "count": 3, "relation": "at least"}),
        False,
    ),
    "repeat": Kind(
        (
            "Repeat this sentence: The {t} near the {n} is {a}.",
            "Say this sentence again: The {t} near the {n} is {a}.",
        ),
        lambda t, a, n: (_begins(f"The {t} near the {n} is {a}"), _length(10, "at most")),
        False,
    ),
    "at least 20 words": Kind(
        ("Describe the {t} in at least 20 words.", "Describe the {t}. Use at least 20 words."),
        _plain(_length(20)),
        False,
    ),
    "title": Kind(
        (
            "Write a title for a story about the {t}. Put it in double angular brackets, like "
            "<<title>>.",
            "Give a title for a story about the {t}, in double angular brackets, such as "
            "<<title>>.",
        ),
        _plain({"kind": "detectable_format:title"}),
        True,
    ),
    "question": Kind(
        (
            "Write a question about the {t} that ends with a question mark.",
            "Write one question about the {t}. End it with a question mark.",
        ),
        _plain({"kind": "ends_with_mark", "mark": "?"}, _length(4)),
        True,
    ),
    "begin with two words": Kind(
        (
            'Write a sentence about the {t} that starts with "Every evening".',
            'Write a sentence about the {t}. Start with the words "Every evening".',
        ),
        _plain(_begins("Every evening"), _length(5)),
        False,
    ),
    "begin with an opinion": Kind(
        (
            'Begin your answer with the words "In my opinion" and say something about the {t}.',
            'Start with "In my opinion" and tell me something about the {t}.',
        ),
        _plain(_begins("In my opinion"), _length(6)),
        True,
    ),
    "complete": Kind(
        (
            'Complete this sentence: "The {a} {t} is". Repeat the words that are given.',
            'Finish this sentence: "The {a} {t} is". Repeat the words that are given.',
        ),
        lambda t, a, n: (_begins(f"The {a} {t} is"), _length(5)),
        True,
    ),
    "bullets": Kind(
        (
            'Make a bullet list with "-" of these words: {t}, {a}, {n}.',
            'Write these words as a bullet list with "-": {t}, {a}, {n}.',
        ),
        lambda t, a, n: (
            {"kind": "bullets", "count": 3, "relation": "at least"},
            _has(a),
            _has(n),
        ),
        False,
    ),
}


def instructions(split: str, count: int, seed: int) -> list[Question]:
    """`count` questions of each kind, each with a topic of its own as long as topics last."""
    made = []
    for name, kind in KINDS.items():
        rng = Random(f"smollm2-{split}-{name}-{seed}")
        topics = shuffled(list(TOPICS[split]), f"{split}-{name}", seed)
        for number in range(count):
            t, a, n = topics[number % len(topics)], rng.choice(ADJECTIVES), rng.choice(NOUNS)
            made.append(
                Question(
                    id=f"{name.replace(' ', '-')}-{split}-{number}",
                    wordings=tuple(text.format(t=t, a=a, n=n) for text in kind.wordings),
                    answer=t,
                    aliases=(f"{t}s", f"{t}'s"),
                    constraints=kind.check(t, a, n),
                    kind=name,
                    cluster=f"topic-{t}",
                    format="constrained",
                )
            )
    return made


def instruction_items(seed: int, dev: int, test: int) -> list[dict[str, Any]]:
    """Items of all kinds; role `rehearsed` if rows of that kind may stand in the replay."""
    return [
        question.item(number, split, "rehearsed" if KINDS[question.kind].replayed else "tested")
        for split, count in (("dev", dev), ("test", test))
        for number, question in enumerate(instructions(split, count, seed))
    ]
