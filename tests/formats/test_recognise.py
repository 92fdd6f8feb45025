import pytest

from mixlab.formats import FORMATS, recognise

# A labelled sample in the shapes that models and data sets really write, lower-case and
# spaced-out variants included. The confusion matrix must be diagonal but for the pairs below.
SAMPLE = [
    ("short", "tiger"), ("short", "42"), ("short", "New York City"), ("short", "USA"),
    ("short", "the red one"), ("short", "3.14"), ("short", "U.S."), ("short", "yes"),
    ("short", "- 5"[2:]), ("short", "left of the blue square"),
    ("letter", "b"), ("letter", "B."), ("letter", "(c)"), ("letter", "A)"), ("letter", "(b) blue"),
    ("letter", "D: none of these"),
    ("sentence", "The answer is tiger."), ("sentence", "the answer is tiger ."),
    ("sentence", "Dr. Smith lives in Rome."), ("sentence", "the answer is tiger"),
    ("sentence", "It costs 3.50 dollars, I think."), ("sentence", "Tigers eat meat!"),
    ("long", "You asked a question. The answer is tiger."),
    ("long", "the answer is tiger . that is all ."),
    ("long", "First paragraph here\n\nSecond paragraph here"),
    ("long", " ".join(["word"] * 31)),
    ("json", '{"answer": "tiger"}'), ("json", '```json\n{"answer": 18}\n```'), ("json", "[1, 2]"),
    ("json", '{"answer": 18, "confidence": 0.9}'), ("json", "{}"),
    ("steps", "Step 1: read the question. Step 2: the answer is tiger."),
    ("steps", "step 1 : add . step 2 : it is 7 ."), ("steps", "1. Add them.\n2. It is 7."),
    ("steps", "**Step 1** look\n**Step 2** say"),
    ("constrained", '"tiger"'), ("constrained", "ok tiger"), ("constrained", "tiger done"),
    ("constrained", "tiger tiger"), ("constrained", "[tiger]"), ("constrained", "TIGER"),
    ("constrained", "- tiger"), ("constrained", "new york new york"),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "text"), SAMPLE)
def test_labelled_sample(fmt: str, text: str) -> None:
    assert recognise(text) == fmt


def test_the_sample_covers_every_format() -> None:
    assert {fmt for fmt, _ in SAMPLE} == set(FORMATS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"answer": tiger}', "short"),  # broken JSON is not JSON
        ("{answer}", "short"),
        ("Step 1: read the question.", "sentence"),  # one step is no list
        ("", "short"),
        ("ok", "constrained"),
    ],
)
def test_edges(text: str, expected: str) -> None:
    assert recognise(text) == expected
