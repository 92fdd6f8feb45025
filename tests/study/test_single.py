import io
from pathlib import Path

import pytest
from rich.console import Console

from mixlab.study import long_arm, show_mix
from mixlab.testbed import TestbedFolder
from tests.study.conftest import ROOT


@pytest.fixture(autouse=True)
def here(micro_testbed: TestbedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MIXLAB_HOME", str(micro_testbed.path.parent.parent))


def test_a_mix_is_shown_with_what_was_asked_and_got() -> None:
    text = show_mix(
        "data_mixes/testbed.yaml",
        overrides=["text_fraction=0.25"],
        pair="testbed-micro",
        steps=5,
        tokens=64,
    )
    assert "5 steps of about 64 supervised tokens" in text
    assert "asked 25.0% of supervised tokens" in text


def test_a_long_arm_says_how_well_it_sees(tmp_path: Path) -> None:
    stream = io.StringIO()
    told = long_arm(
        tmp_path / "arm",
        steps=3,
        pair="testbed-micro",
        tokens=32,
        console=Console(file=stream, width=100),
    )
    assert told.startswith("Vision after 3 steps on images alone: ")
    assert (tmp_path / "arm" / "final" / "config.json").is_file()
    assert "train" in stream.getvalue()


@pytest.mark.slow
def test_the_long_vision_arm_reaches_ninety_percent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIXLAB_HOME")
    told = long_arm(tmp_path / "arm")
    accuracy = float(told.partition("alone: ")[2].partition("%")[0])
    floor = float(told.partition("question type: ")[2].partition("%")[0])
    assert accuracy >= 90
    assert floor < 25
