"""Short texts to read: content that stands in the prompt, so that the form is what is tested."""

from random import Random
from zlib import crc32

from mixlab.testbed.content import Content, options, words

THINGS = words(
    "lamp door chair table window clock bottle basket ladder bridge garden kettle "
    "mirror pillow bucket candle hammer blanket carpet engine river tower wagon "
    "wheel barrel cabin fence tunnel anchor compass"
)
STATES = words("hot cold wet dry big small old new soft hard clean dirty loud quiet light heavy")
QUESTIONS = ("how is the {t}?", "what is the {t} like?", "in this text, the {t} is what?")


def pair_split(thing: str, state: str) -> str:
    """The split of a (thing, state) pair: fixed by a checksum."""
    mark = crc32(f"{thing} {state}".encode()) % 10
    return "test" if mark < 3 else "dev" if mark == 3 else "train"


def draw(split: str, rng: Random, number: int) -> Content:
    """A sentence and a question about it; its pair belongs to ``split``.

    One sentence, so that the content is a copy and only the form can go wrong.
    """
    while True:
        thing, state = rng.choice(THINGS), rng.choice(STATES)
        if pair_split(thing, state) == split:
            break
    question = f"the {thing} is {state}. {rng.choice(QUESTIONS).format(t=thing)}"
    return Content(
        id=f"reading-{split}-{number}",
        question=question,
        answer=state,
        choices=options(state, STATES),
        kind="reading",
        group=f"{thing}:{state}",
    )
