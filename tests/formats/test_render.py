import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mixlab.formats import ENGLISH, FORMATS, Phrasebook, recognise, render, renderable
from mixlab.spec import MixlabError

ROW = {
    "question": "Which animal has stripes?",
    "answer": "tiger",
    "choices": ["dog", "tiger", "cow", "hen"],
}


def test_every_format_of_a_short_answer_is_recognised_as_itself() -> None:
    assert renderable(**ROW) == FORMATS
    for fmt in FORMATS:
        for key in range(40):
            made = render(fmt, key=str(key), **ROW)
            assert recognise(made.answer) == fmt, made
            assert ROW["question"] in made.question


def test_renderings_hold_the_answer_and_read_as_declared() -> None:
    assert render("short", key="1", **ROW).answer == "tiger"
    assert render("json", key="1", **ROW).answer == '{"answer": "tiger"}'
    assert "tiger" in render("steps", key="1", **ROW).answer
    letter = render("letter", key="1", **ROW)
    assert letter.choices["abcd".index(letter.answer)] == "tiger"
    assert f"({letter.answer}) tiger" in letter.question


def test_letters_are_balanced_and_do_not_depend_on_the_order_of_the_choices() -> None:
    turned = {**ROW, "choices": ROW["choices"][::-1]}
    letters = Counter()
    for key in range(400):
        made = render("letter", key=str(key), **ROW)
        assert made == render("letter", key=str(key), **turned)
        letters[made.answer] += 1
    assert set(letters) == set("abcd")
    # 400 draws at 1/4: standard deviation 8.7, so 60..140 is more than four of them.
    assert all(60 < n < 140 for n in letters.values())


def test_every_wording_and_constraint_is_drawn() -> None:
    kinds = Counter(
        render("constrained", key=str(key), **ROW).constraints[0]["kind"] for key in range(300)
    )
    assert len(kinds) == len(ENGLISH.constraints)
    asked = {render("short", key=str(key), **ROW).question for key in range(100)}
    assert len(asked) == len(ENGLISH.instructions["short"])


def test_rendering_is_the_same_in_another_process_whatever_the_hash_seed() -> None:
    code = (
        "from mixlab.formats import *;"
        "print([render(f, key='k7', question='q?', answer='a1', choices=['a1','b','c']).question"
        " + render(f, key='k7', question='q?', answer='a1', choices=['a1','b','c']).answer"
        " for f in FORMATS])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_user_text_with_placeholders_and_braces_is_left_alone() -> None:
    made = render("json", question="What is {answer}?", answer="{instruction}", key="1")
    assert made.question.startswith("What is {answer}?")
    assert json.loads(made.answer) == {"answer": "{instruction}"}


def test_a_stop_is_not_doubled() -> None:
    for key in range(20):
        assert (
            ".."
            not in render("sentence", question="Where?", answer="the U.S.", key=str(key)).answer
        )


def test_long_answers_keep_their_form() -> None:
    answer = "Tigers have stripes. They live in Asia."
    assert renderable("Why?", answer) == ("long", "json")
    assert render("long", question="Why?", answer=answer, key="1").answer == answer
    with pytest.raises(MixlabError, match="can be rendered to: long, json"):
        render("short", question="Why?", answer=answer, key="1")


@pytest.mark.parametrize(
    "choices",
    [None, ["tiger"], ["dog", "cow"], ["tiger", "tiger", "dog"], [str(i) for i in range(27)]],
)
def test_letter_needs_distinct_choices_that_hold_the_answer(choices: list[str] | None) -> None:
    assert "letter" not in renderable("Q?", "tiger", choices)
    with pytest.raises(MixlabError, match="letter"):
        render("letter", question="Q?", answer="tiger", choices=choices, key="1")


def test_blank_rows_are_not_renderable() -> None:
    assert renderable("", "a") == ()
    assert renderable("q", " ") == ()


def test_unknown_format_and_constraint_are_named() -> None:
    with pytest.raises(MixlabError, match="unknown output format 'yaml'"):
        render("yaml", key="1", **ROW)
    with pytest.raises(MixlabError, match="no constraint 'rhyme'"):
        render("constrained", key="1", constraint="rhyme", **ROW)
    assert render("constrained", key="1", constraint="quotes", **ROW).answer == '"tiger"'


def test_phrasebook_checks_its_patterns() -> None:
    with pytest.raises(MixlabError, match="lacks"):
        Phrasebook("x", {"sentence": ("say it",)}, {"sentence": ("it is so",)})
    with pytest.raises(MixlabError, match="unknown format"):
        Phrasebook("x", {"yaml": ("say it",)}, {})
    with pytest.raises(MixlabError, match="list of at least one"):
        Phrasebook("x", {"short": "say it"}, {})  # type: ignore[dict-item]
    small = Phrasebook("small", {"short": ("",)}, {"short": ("{answer}",)})
    assert render("short", question="q ?", answer="a", key="1", phrasebook=small).question == "q ?"
    with pytest.raises(MixlabError, match="'small' has no wording for format 'json'"):
        render("json", question="q ?", answer="a", key="1", phrasebook=small)


BOOK = "name: b\ninstructions: {short: [say]}\nanswers: {short: ['{answer}']}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOOK.replace("answers", "answrs"), "unknown key 'answrs'; did you mean 'answers'"),
        ("name: b\ninstructions: {short: [say]}\n", "key 'answers' is missing"),
        (BOOK.replace("[say]", "say"), "expected a list of wordings"),
        (BOOK + "constraints: [{kind: x}]\n", "key 'instructions' is missing"),
        (BOOK + "constraints: [x]\n", "expected a mapping"),
        ("name: [\n", "not valid YAML"),
    ],
)
def test_phrasebook_files_with_mistakes(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "book.yaml"
    path.write_text(BOOK)
    assert Phrasebook.read(path).supports("short")
    path.write_text(text)
    with pytest.raises(MixlabError, match=r"book\.yaml") as raised:
        Phrasebook.read(path)
    assert message in str(raised.value)
