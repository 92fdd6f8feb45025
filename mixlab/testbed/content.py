"""One piece of content: something that can be asked, in any output format."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Content:
    """A question with its truth.

    ``question`` is plain (no instruction about form), ``answer`` the canonical short answer,
    ``choices`` what a letter question offers (four in order, or nothing).
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


def options(answer: str, pool: Sequence[str], count: int = 4) -> tuple[str, ...]:
    """The options that go with an answer: its group of ``count`` in the pool, in the pool's order.

    Like the answer sheet of a questionnaire: an answer always has the same letter. Shuffled
    options would ask for a look-up within the question, which a model of this size doesn't learn
    in minutes, and the form could no longer be told from the content.
    """
    start = min(pool.index(answer) // count * count, len(pool) - count)
    return tuple(pool[start : start + count])


def words(text: str) -> tuple[str, ...]:
    """The words of a list written as one string."""
    return tuple(text.split())
