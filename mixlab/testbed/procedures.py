"""Procedures on operands given in the question: sums, and moves on rows of letters."""

from collections.abc import Callable
from random import Random
from zlib import crc32

from mixlab.testbed.content import Content, options

LETTERS = "fgklmnprstvxz"
LENGTH = 4


def _reverse(letters: str) -> str:
    return letters[::-1]


def _rotate(letters: str) -> str:
    return letters[1:] + letters[0]


def _swap(letters: str) -> str:
    return letters[-1] + letters[1:-1] + letters[0]


STRING_OPERATIONS: dict[str, Callable[[str], str]] = {
    "reverse": _reverse,
    "rotate": _rotate,
    "swap": _swap,
}
OPERATIONS = ("add", "subtract", *STRING_OPERATIONS)

WORDINGS: dict[str, tuple[str, ...]] = {
    "add": ("what is {a} plus {b}?", "give {a} plus {b}.", "{a} plus {b} makes what?"),
    "subtract": ("what is {a} minus {b}?", "give {a} minus {b}.", "{a} minus {b} makes what?"),
    "reverse": ("reverse {s}.", "say {s} backwards.", "what is {s} in reverse?"),
    "rotate": ("rotate {s}.", "move the first to the end: {s}.", "what is {s} after one turn?"),
    "swap": ("swap the ends of {s}.", "trade first and last: {s}.", "what is {s} with ends swapped?"),
}


def operands(operation: str, rng: Random) -> tuple[str, str]:
    """Operands as text, and the answer: sums have two digits and neither carry nor borrow."""
    if operation == "add":
        pairs = [_digits_to(9, rng, least=i == 0) for i in range(2)]
        a, b = "".join(str(x) for x, _ in pairs), "".join(str(y) for _, y in pairs)
        return f"{a},{b}", str(int(a) + int(b))
    if operation == "subtract":
        pairs = [_digits_to(9, rng, least=i == 0) for i in range(2)]
        a, b = "".join(str(x + y) for x, y in pairs), "".join(str(y) for _, y in pairs)
        return f"{a},{b}", "".join(str(x) for x, _ in pairs)
    letters = "".join(rng.sample(LETTERS, LENGTH))
    return letters, STRING_OPERATIONS[operation](letters)


def _digits_to(limit: int, rng: Random, *, least: bool) -> tuple[int, int]:
    """Two digits whose sum is at most ``limit``; ``least`` asks that neither is zero."""
    total = rng.randint(2 if least else 0, limit)
    first = rng.randint(1, total - 1) if least else rng.randint(0, total)
    return first, total - first


def make(operation: str, wording: int, rng: Random, number: int) -> Content:
    """One question of an operation with fresh operands."""
    text, answer = operands(operation, rng)
    return ask(operation, wording, text, answer, number, rng)


def ask(
    operation: str, wording: int, text: str, answer: str, number: int, rng: Random
) -> Content:
    """The question for given operands (``text``: ``"12,34"`` or ``"bdfg"``)."""
    template = WORDINGS[operation][wording]
    if operation in STRING_OPERATIONS:
        question = template.format(s=" ".join(text))
        shown = " ".join(answer)
        others = {" ".join(rng.sample(answer, len(answer))) for _ in range(12)}
    else:
        a, b = text.split(",")
        question, shown = template.format(a=a, b=b), answer
        near = (int(answer) + step for step in (-20, -11, -10, -1, 1, 10, 11, 20))
        others = {str(number) for number in near if 10 <= number <= 99}
    choices = options(shown, sorted(others), rng)
    return Content(
        id=f"procedure-{operation}-{number}",
        question=question,
        answer=shown,
        choices=choices,
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
            return ask(operation, wording, text, answer, number, rng)
