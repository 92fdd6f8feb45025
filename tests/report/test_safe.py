"""Names, prompts and answers are shown, never obeyed."""

from __future__ import annotations

import html
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mixlab.report import build_report
from mixlab.report._safe import plain, user

from .planted import Plant, write_study
from .reading import parse

hostile = st.text(
    st.one_of(
        st.sampled_from(list("<>&\"'`={}%#/\\\x00\x08\x1b\x7f\x85\u200e\u202e\u2066\u2028\ufeff")),
        st.characters(),
    ),
    max_size=40,
)


@given(hostile)
def test_any_text_is_inert_and_comes_back(text: str) -> None:
    shown = str(user(text))
    inner = shown.removeprefix("<bdi>").removesuffix("</bdi>")
    assert not re.search(r"[<>\"']", inner)
    assert html.unescape(inner) == plain(text)
    inner.encode("utf-8")


@given(hostile)
def test_no_character_can_turn_or_hide_the_text(text: str) -> None:
    forbidden = set("\x00\x08\x1b\x7f\x85\u200e\u200f\u202a\u202e\u2066\u2069\ufeff")
    assert not forbidden & set(plain(text))


def test_characters_that_scripts_need_stay() -> None:
    assert plain("می‌خواهم 子 é\n\tx") == "می‌خواهم 子 é\n\tx"
    assert plain("a\u202eb\x00") == "a[U+202E]b[U+0000]"


def test_a_page_full_of_hostile_names(tmp_path: Path) -> None:
    evil = '</style></svg><script>alert("x")</script>\u202e\x1b[31m{{ 7*7 }}'
    names = {"arm": evil, "name": evil, "task": evil, "response": evil}
    folder = write_study(tmp_path, Plant(scale=0.15, trials=2), **names)
    page = build_report(folder).read_text(encoding="utf-8")
    found = parse(page)
    assert not found.faults
    assert "script" not in found.tags
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert "[U+202E]" in page
    assert "{{ 7*7 }}" in page
    assert not [k for _, k, _ in found.attributes if k.startswith("on")]
