"""The real executor on the micro testbed: everything from the sweep file to the page."""

import io
import json
import math
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from mixlab import MixlabError
from mixlab.store import Tables
from mixlab.study import Job, SweepResult, SweepSpec, run_sweep
from mixlab.study.arms import Rooms
from mixlab.study.sweepfile import Pair
from mixlab.testbed import TestbedFolder
from tests.study.conftest import ROOT

SWEEP = """\
name: micro
pair: {{vlm: testbed-micro, reference: testbed-micro}}
arm:
  mix: data_mixes/testbed.yaml
  steps: 4
  batch: {{supervised_tokens: 64}}
  learning_rate: 1.0e-3
  checkpoint_every: 2
parameters:
  mix.text_fraction: {{distribution: uniform, min: 0.0, max: 0.6}}
  mix.formats: {{distribution: simplex, values: [short, letter, sentence, json]}}
baselines:
  - {{mix.text_fraction: 0.0, mix.formats: {{short: 1.0}}, seeds: [0, 1]}}
  - {{mix.text_fraction: 0.25, mix.formats: {{short: 1.0}}}}
dilution: [0.25]
seeds: [0]
operators: [{{merge: {{alpha: [0, 0.5, 1]}}}}]
protocols: [strict, semantic]
trials: {trials}
"""


def run(folder: Path, out: str, workers: int, trials: int = 1, **keywords: object) -> SweepResult:
    file = folder / "micro.yaml"
    file.write_text(SWEEP.format(trials=trials))
    console = Console(file=io.StringIO())
    return run_sweep(file, out=folder / out, workers=workers, console=console, **keywords)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def home(micro_testbed: TestbedFolder) -> Path:
    """The cache folder that holds the micro testbed."""
    return micro_testbed.path.parent.parent


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MIXLAB_HOME", str(home))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.usefixtures("here")
def test_a_sweep_ends_with_its_tables_and_a_page(tmp_path: Path) -> None:
    result = run(tmp_path, "study", workers=2)
    assert result.report is not None
    assert "<html" in result.report.read_text()
    tables = Tables(result.folder / "tables")
    runs, scores = tables.read("runs"), tables.read("scores")
    assert runs["kind"].value_counts().to_dict() == {
        "baseline": 3,
        "dilution": 1,
        "trial": 1,
        "reference": 1,
        "start": 1,
    }
    assert {"receipts", "curves", "items", "trials"} <= set(tables.names())
    mixed = runs[(runs["kind"] == "baseline") & (runs["text_fraction"] == 0.25)].iloc[0]
    assert mixed["realised_text_supervised"] == pytest.approx(0.25, abs=0.05)
    diluted = runs[runs["kind"] == "dilution"].iloc[0]
    assert diluted["steps"] == 3  # 4 steps x (1 - 0.25)

    # A row stands once for each question asked, and alpha 1 is the model untouched.
    key = ["run", "task", "item", "condition", "protocol", "operator", "alpha"]
    assert not scores.duplicated(key).any()
    one = scores[scores["run"] == mixed["run"]].fillna({"alpha": -1.0})
    question = ["task", "item", "condition", "protocol"]
    plain = one[one["operator"] == "none"].set_index(question)
    merged = one[(one["operator"] == "merge") & (one["alpha"] == 1.0)].set_index(question)
    pd.testing.assert_series_equal(
        merged["response"].sort_index(), plain.loc[merged.index, "response"].sort_index()
    )
    # At alpha 0 the text answers are the reference's own.
    text = merged[merged.index.get_level_values("condition") == "none"].index
    zero = one[(one["operator"] == "merge") & (one["alpha"] == 0.0)].set_index(question)
    reference = scores[scores["run"] == "reference"].set_index(question)
    pd.testing.assert_series_equal(
        zero.loc[text, "response"].sort_index(), reference.loc[text, "response"].sort_index()
    )

    study = json.loads((result.folder / "study.json").read_text())
    assert study["provenance"]["versions"]["torch"]
    assert run(tmp_path, "study", workers=1).jobs == 0

    again = run(tmp_path, "again", workers=1)
    for name in ("scores", "receipts", "items", "trials"):
        pd.testing.assert_frame_equal(Tables(again.folder / "tables").read(name), tables.read(name))
    assert list(Tables(again.folder / "tables").read("runs")["weights"]) == list(runs["weights"])


@pytest.mark.parametrize("kind", ["trial", "baseline"])
def test_shares_that_no_row_can_meet_fail_a_trial_and_stop_a_baseline(
    micro_testbed: TestbedFolder, tmp_path: Path, kind: str
) -> None:
    """A sampler may ask for what the rows cannot give; a sweep file's author should be told."""
    root = micro_testbed
    rooms = Rooms(
        SweepSpec(name="x", pair=Pair(vlm="a", reference="b"), arm={}, baselines=[{}]),
        {
            "vlm": str(root.vlm),
            "reference": str(root.reference),
            "roots": {},
            "tasks": [],
            "placebo": [],
        },
    )
    sources = [
        {"name": "scenes", "modality": "vision", "path": str(root.data / "vision_train.jsonl")},
        {"name": "sums", "modality": "text", "path": str(root.data / "procedures.jsonl")},
    ]
    mix = {"name": "m", "sources": sources, "text_fraction": 0.5, "formats": {"letter": 1.0}}
    settings = {"mix": mix, "vision_scale": 1.0, "steps": 2, "batch": {"supervised_tokens": 16}}
    job = Job("r", "fit", "arm", kind, settings=settings)
    if kind == "baseline":
        with pytest.raises(MixlabError, match="letter"):
            rooms.fit(job, tmp_path, lambda **_: None)
        return
    outcome = rooms.fit(job, tmp_path, lambda **_: None)
    assert all(math.isnan(value) for value in outcome.objectives.values())
    assert set(outcome.objectives) == {"text", "vision"}
    assert "letter" in outcome.facts["failed"]


@pytest.mark.usefixtures("here")
def test_mistakes_are_told_before_anything_is_built(tmp_path: Path) -> None:
    for override, message in [
        ("arm.learning_rat=1", "did you mean 'learning_rate'"),
        ("arm.mix=data_mixes/testbet.yaml", "which is in none of"),
        ("baselines.0.mix.text_fraction=2", "text_fraction: found 2, expected a fraction"),
        ("protocols=[strikt]", "strikt"),
    ]:
        with pytest.raises(MixlabError, match=message):
            run(tmp_path, "study", workers=1, overrides=[override])
    assert not (tmp_path / "study" / "study.json").exists()
