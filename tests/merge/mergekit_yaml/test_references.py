"""A folder that exists is never taken apart; what does not exist is read as mergekit reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixlab.merge.mergekit_yaml import Reference, parse_reference


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("m", "l", "m+l", "x@v1", "x@v1+y", "a+b+c", "l+2"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m", Reference("m")),
        ("m+l", Reference("m+l")),
        ("./m+./l", Reference("./m", None, "./l")),
        ("x@v1", Reference("x@v1")),
        ("x@v1+y", Reference("x@v1+y")),
        ("x@v1+l", Reference("x@v1", None, "l")),
        ("a+b+c+l+2", Reference("a+b+c", None, "l+2")),
        ("m@main", Reference("m")),
        ("org/name@v2+org/lora@r", Reference("org/name", "v2", "org/lora", "r")),
        ({"model": "m", "lora": {"path": "l"}}, Reference("m", None, "l")),
        ({"model": {"path": "m+l", "revision": None}}, Reference("m+l")),
    ],
)
def test_existing_paths_win(text: object, expected: Reference) -> None:
    assert parse_reference(text) == expected


def test_names_of_documents_win_over_folders() -> None:
    assert parse_reference("step+l", {"step"}) == Reference("step", None, "l")
    assert str(parse_reference("step+l", {"step"})) == "step+l"


@pytest.mark.parametrize("text", ["", 3, "u+v+w", "u@v@w", "+l", {"lora": "l"}, {"model": ""}])
def test_what_is_unclear_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"found|holds several|is empty|no existing"):
        parse_reference(text)
