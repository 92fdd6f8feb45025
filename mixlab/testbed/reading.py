"""Short texts to read: content that stands in the prompt, so that the form is what is tested."""

from random import Random

from mixlab.testbed.content import Content, options

THINGS = tuple(
    "lamp door chair table window clock bottle basket ladder bridge garden kettle mirror pillow "
    "bucket candle hammer blanket carpet engine river tower wagon wheel barrel cabin fence "
    "tunnel anchor compass".split()
)
STATES = tuple(
    "hot cold wet dry big small old new soft hard clean dirty loud quiet light heavy".split()
)
QUESTIONS = ("how is the {t}?", "what is the {t} like?", "in this text, the {t} is what?")


def pair_split(thing: str, state: str) -> str:
    """The split of a (thing, state) pair: fixed by a checksum."""
    mark = (THINGS.index(thing) * 7 + STATES.index(state) * 3) % 10
    return "test" if mark in (1, 4, 8) else "dev" if mark == 6 else "train"


def draw(split: str, rng: Random, number: int) -> Content:
    """Two or three sentences and a question about one; the asked pair belongs to ``split``."""
    while True:
        thing, state = rng.choice(THINGS), rng.choice(STATES)
        if pair_split(thing, state) == split:
            break
    others = rng.sample([t for t in THINGS if t != thing], rng.choice((1, 2)))
    lines = [(thing, state)]
    for other in others:
        states = [s for s in STATES if s != state and pair_split(other, s) == "train"]
        lines.append((other, rng.choice(states)))
    rng.shuffle(lines)
    text = " ".join(f"the {t} is {s}." for t, s in lines)
    question = rng.choice(QUESTIONS).format(t=thing)
    return Content(
        id=f"reading-{split}-{number}",
        question=f"{text} {question}",
        answer=state,
        choices=options(state, STATES, rng),
        kind="reading",
        group=f"{thing}:{state}",
    )
