"""Strict, semantic and form scores on the same responses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.formats import FORMATS, render
from mixlab.score import PROTOCOLS, Item, Protocol, form_right, judge, semantic_right, strict_right


def item(answer: str = "blue", form: str = "short", **more: object) -> Item:
    return Item(id="1", question="which?", answer=answer, format=form, **more)  # type: ignore[arg-type]


def rendered(form: str) -> tuple[Item, str]:
    choices = ("blue", "red", "green")
    made = render(form, question="which colour?", answer="blue", choices=choices, key="k")
    return (
        Item(
            id="1",
            question=made.question,
            answer="blue",
            choices=made.choices or choices,
            format=form,
            constraints=made.constraints,
        ),
        made.answer,
    )


@pytest.mark.parametrize("form", FORMATS)
def test_the_rendered_gold_passes_form_and_semantic(form: str) -> None:
    made, gold = rendered(form)
    assert form_right(made, gold)
    if form != "constrained":
        assert strict_right(made, gold)
        assert semantic_right(made, gold)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("response", ["cat", "ok", "red", "a cat", "", "yes.", "- cat", "CAT"])
def test_a_degenerate_answer_fails_form(form: str, response: str) -> None:
    made, _ = rendered(form)
    assert judge(made, "form", response, PROTOCOLS["strict"]) == 0.0
    assert judge(made, "form", response, PROTOCOLS["semantic"]) == 0.0


@pytest.mark.parametrize("form", [f for f in FORMATS if f != "short"])
def test_the_bare_answer_fails_every_other_form(form: str) -> None:
    made, gold = rendered(form)
    if gold != "blue":
        assert not form_right(made, "blue")


def test_lower_case_needs_the_content_too() -> None:
    made = item("blue", "constrained", constraints=({"kind": "lowercase"},))
    assert form_right(made, "it is blue")
    assert not form_right(made, "cat")
    assert not form_right(made, "It is blue")


def test_naming_two_choices_is_no_answer() -> None:
    made = item("blue", "sentence", choices=("blue", "red"))
    assert form_right(made, "The colour is blue.")
    assert not form_right(made, "The colour is blue or red.")


def test_the_extractor_never_changes_form() -> None:
    made, gold = rendered("json")
    for response in (gold, "blue", "The answer is blue.", '{"answer": "red"}'):
        scores = {
            judge(made, "form", response, Protocol(name=how, extractor=how))  # type: ignore[arg-type]
            for how in ("strict", "semantic")
        }
        assert len(scores) == 1


def test_loose_drops_a_first_line() -> None:
    made, gold = rendered("json")
    wrapped = f"Sure, here it is:\n{gold}"
    assert not form_right(made, wrapped)
    assert form_right(made, wrapped, loose=True)


def test_strict_and_its_case_rule() -> None:
    assert strict_right(item(), " blue\n")
    assert not strict_right(item(), "Blue")
    assert strict_right(item(), "Blue", fold=True)
    assert not strict_right(item(), "blue.")
    assert strict_right(item(aliases=("azure",)), "azure")
    assert not strict_right(item(form="json"), "blue")
    assert strict_right(item(form="json"), '{"answer": "blue"}')


def test_semantic_numbers_equal_by_value() -> None:
    assert semantic_right(item("18"), "$18.00")
    assert semantic_right(item("0.5"), "1/2")
    assert not semantic_right(item("18"), "18.5")
    assert not semantic_right(item("18"), "-18")


def test_a_leading_zero_is_no_number() -> None:
    assert not semantic_right(item("007"), "7")
    assert semantic_right(item("007"), "The answer is 007.")


@settings(deadline=None)
@given(
    st.one_of(
        st.integers(-10_000, 10_000).map(str),
        st.from_regex(r"[a-z]{2,9}( [a-z]{2,9}){0,2}", fullmatch=True),
    ),
    st.sampled_from(["{}", " {}\n", '{{"answer": "{}"}}', "The answer is {}.", "x {}", "{}."]),
    st.sampled_from(["short", "sentence", "json"]),
)
def test_what_strict_accepts_semantic_accepts(answer: str, pattern: str, form: str) -> None:
    made = item(answer, form)
    response = pattern.format(answer)
    assert semantic_right(made, response) or not strict_right(made, response)
    if pattern != "x {}":
        assert semantic_right(made, response)


def test_letters_as_the_question_shows_them() -> None:
    made = Item(
        id="1",
        question="which? (a) red (b) blue",
        answer="blue",
        choices=("blue", "red"),
        format="letter",
    )
    assert strict_right(made, "b")
    assert not strict_right(made, "a")
    assert semantic_right(made, "(b) blue")
    assert semantic_right(made, "The answer is B.")
    assert not semantic_right(made, "a")


def test_ifeval_is_prompt_level_and_has_no_gold() -> None:
    made = item(
        "",
        "constrained",
        ifeval=(
            ("punctuation:no_comma", {}),
            ("change_case:english_lowercase", {}),
        ),
    )
    assert form_right(made, "all of this is lower case")
    assert not form_right(made, "all of this, is lower case")
    assert not form_right(made, "All of this is not")


def test_empty_is_wrong_everywhere() -> None:
    for metric in ("exact", "form"):
        assert judge(item(), metric, "  ", PROTOCOLS["semantic"]) == 0.0
