"""The negative control: patterns to go on with, which no arm's rows ever touch."""

from random import Random
from zlib import crc32

from mixlab.testbed.content import Content, words

WORDS = words(
    "apple berry cloud daisy eagle ferry grape igloo jewel koala lemon mango ocean "
    "pearl quill robin shell tulip umber viola whale zebra"
)
WORDINGS = ("go on: {s}", "what comes next: {s}", "continue {s}")
KINDS = ("alternate", "same")


def draw(split: str, rng: Random, number: int) -> Content:
    """A pattern of words; ``train`` and the other splits use different ordered pairs of words."""
    while True:
        words = rng.sample(WORDS, 4)
        mark = crc32(" ".join(words[:2]).encode()) % 10
        if split == ("test" if mark < 3 else "dev" if mark == 3 else "train"):
            break
    kind = KINDS[number % len(KINDS)]
    a, b = words[:2]
    if kind == "alternate":
        shown, answer = rng.choice((([a, b, a, b, a], b), ([a, b, a, b, a, b], a)))
    else:
        shown, answer = [a] * rng.choice((3, 4, 5)), a
    text = " ".join(shown)
    return Content(
        id=f"pattern-{split}-{number}",
        question=rng.choice(WORDINGS).format(s=text),
        answer=answer,
        # Of the words shown only the right one is offered: whether a model still goes on with what
        # it reads, which tuning on other things should leave alone.
        choices=tuple(
            word
            for word in rng.sample(words, len(words))
            if word == answer or word not in words[:2]
        ),
        kind=kind,
        group=f"{split}-{number}",
    )
