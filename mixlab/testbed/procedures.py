"""Procedures on operands given in the question: sums, and moves on rows of letters."""

from collections.abc import Callable
from random import Random
from zlib import crc32

from mixlab.testbed.content import Content

LETTERS = "fgklmnprstvxz"
LENGTH = 3


def _reverse(letters: str) -> str:
    return letters[::-1]


def _rotate(letters: str) -> str:
    return letters[1:] + letters[0]


STRING_OPERATIONS: dict[str, Callable[[str], str]] = {
    "reverse": _reverse,
    "rotate": _rotate,
}
OPERATIONS = ("add", *STRING_OPERATIONS)

WORDINGS: dict[str, tuple[str, ...]] = {
    "add": ("what is {a} plus {b}?", "give {a} plus {b}.", "{a} plus {b} makes what?"),
    "reverse": ("reverse {s}.", "say {s} backwards.", "what is {s} in reverse?"),
    "rotate": ("rotate {s}.", "move the first to the end: {s}.", "what is {s} after one turn?"),
}


def operands(operation: str, rng: Random) -> tuple[str, str]:
    """Operands as text, and the answer: sums have two digits and nothing to carry."""
    if operation == "add":
        pairs = [_digits_to(9, rng, least=i == 0) for i in range(2)]
        a, b = "".join(str(x) for x, _ in pairs), "".join(str(y) for _, y in pairs)
        return f"{a},{b}", str(int(a) + int(b))
    letters = "".join(rng.sample(LETTERS, LENGTH))
    return letters, STRING_OPERATIONS[operation](letters)


def _digits_to(limit: int, rng: Random, *, least: bool) -> tuple[int, int]:
    """Two digits whose sum is at most ``limit``; ``least`` asks that neither is zero."""
    total = rng.randint(2 if least else 0, limit)
    first = rng.randint(1, total - 1) if least else rng.randint(0, total)
    return first, total - first


def ask(operation: str, wording: int, text: str, answer: str, number: int) -> Content:
    """The question for given operands (``text``: ``"12,34"`` or ``"fgk"``)."""
    template = WORDINGS[operation][wording]
    if operation in STRING_OPERATIONS:
        question = template.format(s=" ".join(text))
        shown = " ".join(answer)
    else:
        a, b = text.split(",")
        question, shown = template.format(a=a, b=b), answer
    return Content(
        id=f"procedure-{operation}-{number}",
        question=question,
        answer=shown,
        choices=(),
        kind=operation,
        group=f"{operation}:{text}",
    )


def held_out(split: str, operation: str, text: str) -> bool:
    """Whether operands belong to ``split``: by a checksum, so that splits never overlap."""
    mark = crc32(f"{operation} {text}".encode()) % 10
    return {"train": mark > 3, "dev": mark == 3, "test": mark < 3}[split]


def draw(split: str, operation: str, wording: int, rng: Random, number: int) -> Content:
    """One question whose operands belong to ``split``."""
    while True:
        text, answer = operands(operation, rng)
        if held_out(split, operation, text):
            return ask(operation, wording, text, answer, number)
