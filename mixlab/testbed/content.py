"""One piece of content: something that can be asked, in any output format."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Content:
    """A question with its truth.

    ``question`` is plain (no instruction about form), ``answer`` the canonical short answer,
    ``choices`` what a letter question offers (four, the answer among them).
    ``group`` is the unit that items share (entity, picture, operands).
    """

    id: str
    question: str
    answer: str
    choices: tuple[str, ...]
    kind: str
    group: str
    image: str | None = None
    scene: str | None = None


def options(answer: str, pool: Sequence[str], rng: Random, count: int = 4) -> tuple[str, ...]:
    """``count`` distinct options in random order, the answer among them."""
    chosen = [answer, *rng.sample([other for other in pool if other != answer], count - 1)]
    rng.shuffle(chosen)
    return tuple(chosen)
