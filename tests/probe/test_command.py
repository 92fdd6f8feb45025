"""`mixlab lineage` as it is typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tiny_checkpoints import make_state, write_model
from typer.testing import CliRunner

from mixlab.cli import app, main


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    vlm = write_model(tmp_path / "vlm", layout="qwen2_vl", seed=0)
    base = write_model(tmp_path / "base", seed=0)
    return [str(f) for f in (vlm, base, write_model(tmp_path / "stranger", seed=4))]


def test_the_verdict_stands_first(folders: list[str]) -> None:
    result = CliRunner().invoke(app, ["lineage", *folders], catch_exceptions=False)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"VLM {folders[0]}"
    assert lines[1].split() == ["reference", "verdict", "rule", "distance", "cosine", "identical"]
    assert "ancestor  frozen" in result.output
    assert f"\n{folders[1]}: ancestor\n" in result.output
    assert "ranking: base (ancestor) > stranger (stranger)" in result.output
    assert "embeddings: 11 of 11 shared rows untouched" in result.output


def test_json_alone(folders: list[str]) -> None:
    result = CliRunner().invoke(app, ["lineage", "--json", *folders], catch_exceptions=False)
    told = json.loads(result.stdout)
    assert [one["verdict"] for one in told["verdicts"]] == ["ancestor", "stranger"]
    assert told["verdicts"][1]["evidence"]["rounded"] is None
    assert told["thresholds"]["stranger"] == 0.1


def test_another_size_is_one_message(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    wide = write_model(tmp_path / "wide", width=2 * make_state()["model.norm.weight"].numel())
    monkeypatch.setattr(sys, "argv", ["mixlab", "lineage", folders[0], str(wide)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("mixlab: ")
    assert "hidden_size: 8 and 16" in error
    assert "Traceback" not in error


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(app, ["lineage", "--help"])
    assert "Example: mixlab lineage models/my-vlm models/base" in result.output
