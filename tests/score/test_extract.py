"""What the semantic reader sees; the list of readings that tools are known to get wrong."""

from __future__ import annotations

from fractions import Fraction

import pytest

from mixlab.score import read_letter, read_number, read_texts
from mixlab.score._extract import json_answer, mentions, normalise
from mixlab.score._numbers import as_number, numbers

EIGHTEEN = [
    "#### 18",
    "The answer is 18.",
    r"\boxed{18}",
    "#### $18",
    "The answer is 18... right?",
    "The answer is 18, because 20-2.",
    "Answer: 18 (checked in 3 steps)",
    "So the total is $18.00.",
    '{"answer": 18, "confidence": 0.9}',
    '```json\n{"confidence": 0.9, "answer": "18"}\n```',
    "Step 1: 20 - 2 = 18. Step 2: the answer is 18.",
    "First 20, then 2 less. It is 18, because 20-2.",
    "The answer is 17. No: the answer is 18.",
    "The **answer** is **18**.",
    r"so $x = \boxed{\$18}$, done in 3 lines",
    "There are eighteen.",
    "18 (of 20)",
    "The answer is 18. I checked the answer: yes.",
]


@pytest.mark.parametrize("response", EIGHTEEN)
def test_all_read_as_eighteen(response: str) -> None:
    assert read_number(response) == 18


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("-5", -5),
        ("The total is 1,234.", 1234),
        ("about .5", Fraction(1, 2)),
        ("the answer is 3/4", Fraction(3, 4)),
        (r"\boxed{\frac{3}{4}}", Fraction(3, 4)),
        ("2e3", 2000),
        ("1, 2, 3", 3),
        ("no idea", None),
        ("", None),
        ("answer: -7", -7),
        ("$-7", -7),
        ("9" * 30, int("9" * 30)),
        ("the answer is not 17 but 18", 18),
    ],
)
def test_numbers(response: str, value: object) -> None:
    assert read_number(response) == value


def test_a_hyphen_between_digits_is_no_sign() -> None:
    assert numbers("20-2") == [20, 2]
    assert numbers("a 3-1 win at -4") == [3, 1, -4]


def test_as_number_is_of_the_whole_text() -> None:
    assert as_number("$18.00.") == 18
    assert as_number("18 eggs") is None
    assert as_number("1/0") is None


LETTERS = {"a": "cat", "b": "blue whale", "c": "dog"}


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("b", "b"),
        ("B.", "b"),
        ("(b)", "b"),
        ("b) blue whale", "b"),
        ("The answer is (B).", "b"),
        ("The answer is B", "b"),
        ('{"answer": "b"}', "b"),
        ("I choose option c", "c"),
        ("It is the blue whale.", "b"),
        ("a cat", "a"),
        ("a dog", "c"),
        ("cat or dog", None),
        ("z", None),
        ("", None),
    ],
)
def test_letters(response: str, letter: str | None) -> None:
    assert read_letter(response, LETTERS) == letter


@pytest.mark.parametrize(
    "response",
    [
        "Paris",
        "paris.",
        '"Paris"',
        "The capital is Paris.",
        "Paris is the capital.",
        "The answer is Paris, the city of light.",
        "Answer: Paris",
        '{"answer": "Paris"}',
        r"\text{so } \boxed{\text{Paris}}",
        "It is Paris because it always was.",
        "ＰＡＲＩＳ",
    ],
)
def test_texts(response: str) -> None:
    assert "paris" in read_texts(response)


@pytest.mark.parametrize(
    "response", ["London", "Paris or London", "The answer is London, not Paris.", "", "🙂 مرحبا"]
)
def test_texts_that_are_not_it(response: str) -> None:
    assert "paris" not in read_texts(response, ("Paris", "London"))


def test_json_takes_the_last_object_and_its_answer_key() -> None:
    assert json_answer('{"answer": 1} then {"answer": 2, "why": "x"}') == "2"
    assert json_answer('{"x": 1, "y": 2}') is None
    assert json_answer('{"colour": "red"}') == "red"
    assert json_answer("{" * 1000) is None


def test_mentions_whole_words_only() -> None:
    assert mentions("It is 18.", "18")
    assert not mentions("It is 18.5", "18")
    assert not mentions("It is 1,018", "18")
    assert not mentions("scatter", "cat")
    assert mentions("Say CAT!", "cat")


def test_a_megabyte_is_read_in_time() -> None:
    assert read_number("7 {" * 350_000 + " the answer is 18.") == 18
    assert read_texts("is " * 350_000)


def test_normalise_is_idempotent() -> None:
    for text in ("The  Answer.", "**a**", "a", "an (the) thing", "", "...", "The the end"):
        assert normalise(normalise(text)) == normalise(text)
