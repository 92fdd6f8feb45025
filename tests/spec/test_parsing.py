from pathlib import Path

import pytest
from pydantic import Field

from mixlab.spec import (
    Fraction,
    Located,
    Settings,
    Shares,
    Space,
    SpecError,
    apply_overrides,
    load_yaml,
    parse,
)


class Source(Settings):
    name: str
    weight: float = 1.0


class Mix(Settings):
    text_fraction: Fraction = 0.0
    formats: Shares = Field(default={"short": 1.0})
    sources: list[Source] = Field(default=[])
    spaces: dict[str, Space] = Field(default={})
    inner: dict[str, Source] | None = None


def errors(folder: Path, text: str) -> str:
    path = folder / "mix.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        parse(Mix, path)
    return str(caught.value).replace(str(folder) + "/", "")


def test_unknown_key_shows_place_and_nearest(tmp_path: Path) -> None:
    assert errors(tmp_path, "# a mix\ntext_fractoin: 0.2\n") == (
        "mix.yaml:2: unknown key 'text_fractoin'; did you mean 'text_fraction'?"
    )


def test_unknown_key_in_a_list_looks_among_that_models_keys(tmp_path: Path) -> None:
    text = "sources:\n  - {name: a}\n  - name: b\n    wieght: 2\n"
    assert errors(tmp_path, text) == "mix.yaml:4: unknown key 'wieght'; did you mean 'weight'?"
    assert "mix.yaml:3: unknown key 'nam'; did you mean 'name'?" in errors(
        tmp_path, "inner:\n  x:\n    nam: a\n"
    )


def test_fraction_and_shares_say_what_was_found(tmp_path: Path) -> None:
    assert errors(tmp_path, "text_fraction: 25\n") == (
        "mix.yaml:1: text_fraction: found 25, expected a fraction between 0 and 1 "
        "(did you mean 0.25?)"
    )
    assert "shares sum to 0.9 (short 0.5 + json 0.4); they must sum to 1" in errors(
        tmp_path, "formats: {short: 0.5, json: 0.4}\n"
    )
    assert "share of 'json' is -0.5" in errors(tmp_path, "formats: {short: 1.5, json: -0.5}\n")
    assert "share of 'short' is nan" in errors(tmp_path, "formats: {short: .nan}\n")


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    message = errors(tmp_path, "text_fraction: -1\nsources:\n  - {weight: much}\n")
    assert len(message.splitlines()) == 3
    assert "mix.yaml:3: key 'name' is missing in sources.0" in message
    assert "found 'much'" in message


def test_mistakes_in_spaces(tmp_path: Path) -> None:
    assert "did you mean 'uniform'?" in errors(
        tmp_path, "spaces:\n  lr: {distribution: unifrom, min: 0, max: 1}\n"
    )
    assert "mix.yaml:2: spaces.lr: the range from 1 to 1 is empty" in errors(
        tmp_path, "spaces:\n  lr: {distribution: uniform, min: 1, max: 1}\n"
    )
    assert "did you mean 'max'" in errors(tmp_path, "spaces:\n  lr: {min: 0, maxx: 1}\n")


def test_override_mistakes_point_at_the_override(tmp_path: Path) -> None:
    (tmp_path / "mix.yaml").write_text("text_fraction: 0.1\n")
    located = load_yaml(tmp_path / "mix.yaml")
    assert parse(Mix, apply_overrides(located, ["text_fraction=0.3"])).text_fraction == 0.3
    with pytest.raises(SpecError, match=r"^--set text_fraction=3: text_fraction: found 3"):
        parse(Mix, apply_overrides(located, ["text_fraction=3"]))
    with pytest.raises(SpecError, match=r"^--set txt_fraction=3: unknown key .*'text_fraction'"):
        parse(Mix, apply_overrides(located, ["txt_fraction=3"]))


def test_a_mistake_inside_a_union_is_told_once() -> None:
    class Spec(Settings):
        dilution: bool | list[Fraction] = False

    with pytest.raises(SpecError) as caught:
        parse(Spec, Located({"dilution": [1.5]}, "a.yaml"))
    assert "1.5" in str(caught.value)
    assert "boolean" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_kinds_are_told_in_words_of_yaml() -> None:
    with pytest.raises(SpecError) as caught:
        parse(Mix, Located({"sources": [3, {"name": [1]}], "spaces": "x"}))
    assert str(caught.value).splitlines() == [
        "sources.0: expected a mapping (key: value), found 3",
        "sources.1.name: expected text, found [1]",
        "spaces: expected a mapping (key: value), found 'x'",
    ]
