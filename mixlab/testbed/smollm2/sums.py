"""Small sums as lines to go on with: items, and training rows on other operands."""

from itertools import product
from typing import Any

from mixlab.testbed.smollm2.item import Question, shuffled

# Asked as a plain continuation after three solved lines: in a chat turn this reference solves
# fewer than one sum in five, which would leave nothing to lose.
_SHOTS: dict[str, tuple[str, str]] = {
    "digits": ("2 + 3 = 5\n4 + 4 = 8\n1 + 6 = 7\n", "3 + 3 = 6\n5 + 4 = 9\n7 + 1 = 8\n"),
    "tens and digits": (
        "12 + 3 = 15\n34 + 4 = 38\n21 + 6 = 27\n",
        "41 + 5 = 46\n23 + 4 = 27\n52 + 6 = 58\n",
    ),
    "tens": (
        "12 + 13 = 25\n34 + 14 = 48\n21 + 16 = 37\n",
        "22 + 15 = 37\n41 + 18 = 59\n13 + 24 = 37\n",
    ),
    "times": ("2 x 3 = 6\n4 x 2 = 8\n3 x 5 = 15\n", "5 x 2 = 10\n2 x 7 = 14\n3 x 3 = 9\n"),
}
_RANGES = {
    "digits": (range(1, 10), range(1, 10)),
    "tens and digits": (range(11, 70), range(1, 7)),
    "tens": (range(10, 50), range(10, 50)),
    "times": (range(2, 13), range(2, 10)),
}
DEV, TRAIN = 10, 12


def sums(seed: int, test: int, dev: int = DEV) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Items (`dev` and at most `test` of each kind) and training rows; no sum stands in two."""
    items: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for kind, (left, right) in _RANGES.items():
        shown = {line.partition(" =")[0] for shots in _SHOTS[kind] for line in shots.split("\n")}
        sign = "x" if kind == "times" else "+"
        pairs = [(a, b) for a, b in product(left, right) if f"{a} {sign} {b}" not in shown]
        order = shuffled(pairs, kind, seed)
        trained, dev_pairs = order[:TRAIN], order[TRAIN : TRAIN + dev]
        tested = order[TRAIN + dev : TRAIN + dev + test]
        for split, part in (("dev", dev_pairs), ("test", tested)):
            items += [
                _question(kind, sign, a, b).item(number, split)
                for number, (a, b) in enumerate(part)
            ]
        rows += [_row(kind, sign, a, b) for a, b in trained]
    return items, rows


def _question(kind: str, sign: str, a: int, b: int) -> Question:
    value = a * b if sign == "x" else a + b
    key = f"{kind.replace(' ', '-')}-{a}{sign}{b}"
    wordings = tuple(f"{shots}{a} {sign} {b} =" for shots in _SHOTS[kind])
    return Question(key, wordings, str(value), kind, key)


def _row(kind: str, sign: str, a: int, b: int) -> dict[str, Any]:
    asked = f"What is {a} {sign} {b}?"
    return Question("row", (asked,), str(a * b if sign == "x" else a + b), kind, "row").row(0) | {
        "id": f"sum-{kind.replace(' ', '-')}-{a}{sign}{b}",
        "group": f"{a}{sign}{b}",
    }
