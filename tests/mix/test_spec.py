from pathlib import Path
from typing import Any

import pytest

from mixlab.mix import MixSpec, dilution, text_twin
from mixlab.spec import MixlabError, SpecError, parse, registered

GOOD = """\
name: small
sources:
  - {name: scenes, modality: vision, path: "testbed:v.jsonl"}
  - {name: facts, modality: text, path: t.jsonl, weight: 2.0}
text_fraction: 0.25
formats: {short: 0.75, json: 0.25}
unit: supervised_tokens
"""


def read(tmp_path: Path, text: str) -> MixSpec:
    path = tmp_path / "mix.yaml"
    path.write_text(text)
    return parse(MixSpec, path)


def test_one_table_of_formats_serves_both_modalities(tmp_path: Path) -> None:
    spec = read(tmp_path, GOOD)
    assert (
        spec.format_shares("vision") == spec.format_shares("text") == {"short": 0.75, "json": 0.25}
    )
    assert spec.modality_shares() == {"vision": 0.75, "text": 0.25}
    assert MixSpec.model_validate(spec.model_dump()) == spec
    assert registered("mix") is MixSpec


def test_formats_apart_by_modality_in_one_order(tmp_path: Path) -> None:
    apart = "formats: {vision: {json: 0.5, short: 0.5, long: 0.0}, text: {letter: 1.0}}"
    spec = read(tmp_path, GOOD.replace("formats: {short: 0.75, json: 0.25}", apart))
    assert list(spec.format_shares("vision")) == ["short", "json"]
    assert spec.format_shares("text") == {"letter": 1.0}


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("text_fraction: 0.25", "text_fractoin: 0.25", 5, "did you mean 'text_fraction'"),
        ("text_fraction: 0.25", "text_fraction: 1.2", 5, "between 0 and 1"),
        ("text_fraction: 0.25", "text_fraction: -0.1", 5, "between 0 and 1"),
        ("json: 0.25", "json: 0.35", 6, "shares sum to 1.1"),
        ("short: 0.75, json: 0.25", "short: 1.25, json: -0.25", 6, "must be 0 or more"),
        ("json: 0.25", "jsno: 0.25", 6, "unknown output format 'jsno'; did you mean 'json'"),
        ("weight: 2.0", "weight: 0", 4, "greater than 0"),
        ("weight: 2.0", "wieght: 2.0", 4, "did you mean 'weight'"),
        ("modality: text", "modality: words", 4, "modality"),
        ("supervised_tokens", "examples", 7, "unit"),
        ("name: facts", "name: scenes", None, "more than once: ['scenes']"),
        ("modality: text", "modality: vision", None, "no source has modality 'text'"),
    ],
)
def test_mistakes_name_file_and_line(
    tmp_path: Path, old: str, new: str, line: int | None, message: str
) -> None:
    with pytest.raises(SpecError) as raised:
        read(tmp_path, GOOD.replace(old, new))
    assert message in str(raised.value)
    assert "mix.yaml" in str(raised.value)
    if line is not None:
        assert raised.value.line == line


def test_twin_and_dilution_arithmetic(tmp_path: Path) -> None:
    spec = read(tmp_path, GOOD)
    twin = text_twin(spec)
    assert twin.text_fraction == 1.0
    assert twin.format_shares("text") == pytest.approx({"short": 0.75, "json": 0.25})
    bare, scale = dilution(spec, 0.25)
    assert (bare.text_fraction, scale) == (0.0, 0.75)
    assert spec.text_fraction == 0.25
    for fraction in (1.0, -0.1, 2.0):
        with pytest.raises(MixlabError, match="at least 0 and below 1"):
            dilution(spec, fraction)


def test_twin_needs_a_text_source() -> None:
    data: dict[str, Any] = {
        "name": "v",
        "sources": [{"name": "scenes", "modality": "vision", "path": "v.jsonl"}],
    }
    with pytest.raises(MixlabError, match="no text source, so it has no text twin"):
        text_twin(MixSpec.model_validate(data))
