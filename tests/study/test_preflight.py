"""What would stop a study later is found before it claims its folder."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mixlab import MixlabError
from mixlab.spec import Located
from mixlab.study import SweepSpec, run_sweep, show_mix
from mixlab.study.execute import RealExecutor
from mixlab.study.recipes import Arm
from mixlab.testbed import TestbedFolder
from tests.study.conftest import Sweeps


def _ask_here(entry: str, question: dict[str, Any], say: Any, what: str) -> Any:
    module = importlib.import_module(entry.partition(":")[0])
    answers: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "answer", lambda function: answers.append(function(question, say)))
        module.main()
    return answers[0]


def silent(stage: str, share: float) -> None:
    pass


class Own:
    """A pair, a mix, rows and tasks of a user's own, in one folder with an awkward name."""

    def __init__(self, folder: Path, bed: TestbedFolder) -> None:
        self.folder = folder / "my wörk + @ x"
        shutil.copytree(bed.vlm, self.folder / "my vlm")
        shutil.copytree(bed.reference, self.folder / "ref")
        for name in ("data", "tasks"):
            shutil.copytree(bed.path / name, self.folder / name)
        (self.folder / "mix.yaml").write_text(
            "name: own\nsources:\n"
            "  - {name: seen, modality: vision, path: data/vision_train.jsonl}\n"
            "  - {name: sums, modality: text, path: data/procedures.jsonl}\n"
        )

    def executor(self) -> RealExecutor:
        spec = SweepSpec.model_validate(
            {
                "name": "own",
                "pair": {"vlm": "my vlm", "reference": "ref"},
                "arm": {"mix": "mix.yaml", "steps": 2, "batch": {"supervised_tokens": 16}},
                "baselines": [{}],
                "tasks": ["tasks/vision.yaml", "tasks/procedure.yaml"],
            }
        )
        return RealExecutor(self.folder / "sweep.yaml", spec, None)

    def start(self) -> tuple[RealExecutor, list[Arm]]:
        made = self.executor()
        recipe = made.recipe(Located(made.spec.arm))
        made.prepare(silent)
        return made, [Arm("plain", "baseline", recipe, (0,))]

    def check(self) -> None:
        made, arms = self.start()
        made.preflight(arms, silent)


@pytest.fixture
def own(tmp_path: Path, micro_testbed: TestbedFolder, monkeypatch: pytest.MonkeyPatch) -> Own:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    # In this process: a new one would import torch each time.
    monkeypatch.setattr("mixlab.study.pairs.ask", _ask_here)
    monkeypatch.setattr("mixlab.study.preflight.ask", _ask_here)
    return Own(tmp_path, micro_testbed)


def test_a_mistake_leaves_the_folder_free(sweeps: Sweeps) -> None:
    with pytest.raises(MixlabError, match="truncated"):
        sweeps.run(arguments={"trouble": "preflight"})
    assert not (sweeps.folder / "study" / "study.json").exists()
    assert sweeps.run().jobs > 0


def test_a_mistake_in_the_file_makes_no_folder(sweeps: Sweeps) -> None:
    for wrong in ("arm.stepz=1", "baselines=[{mix.text_fraction: 2}]"):
        with pytest.raises(MixlabError):
            sweeps.run(overrides=[wrong])
    assert not (sweeps.folder / "study").exists()


def test_own_files_are_found_from_another_working_directory(own: Own) -> None:
    own.check()
    shown = show_mix(own.folder / "mix.yaml", pair=str(own.folder / "my vlm"), steps=1, tokens=16)
    assert "seen" in shown


def test_changed_rows_make_another_study(own: Own) -> None:
    before = own.start()[0].identity()["weights"]
    assert own.start()[0].identity()["weights"] == before
    rows = own.folder / "data" / "procedures.jsonl"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[1:]))
    assert own.start()[0].identity()["weights"] != before


def test_inputs_that_would_stop_a_job(own: Own) -> None:
    items = own.folder / "tasks" / "vision.jsonl"
    whole = items.read_text()
    rows = [json.loads(line) for line in whole.splitlines()]
    dev = [row for row in rows if row["split"] == "dev"]
    items.write_text(json.dumps(dev[0]) + "\n")
    with pytest.raises(MixlabError, match=r"task 'vision', dev items: .* more images"):
        own.check()
    items.write_text(whole)
    image = own.folder / "data" / "images" / "train-00000.png"
    image.write_bytes(image.read_bytes()[:60])
    with pytest.raises(MixlabError, match=r"source 'seen', row 0 .*train-00000"):
        own.check()


def test_tasks_without_text(own: Own) -> None:
    made, arms = own.start()
    made.pair["tasks"] = [task for task in made.pair["tasks"] if "vision" in task]
    with pytest.raises(MixlabError, match=r"no task measures text.*vision \(vision\)"):
        made.preflight(arms, silent)


def test_a_reference_of_other_shapes(own: Own) -> None:
    config = own.folder / "ref" / "config.json"
    told = json.loads(config.read_text())
    config.write_text(json.dumps(told | {"rms_norm_eps": 0.5}))
    with pytest.raises(MixlabError, match=r"do not match in 1 ways.*\n.*rms_norm_eps"):
        own.check()


@pytest.mark.parametrize("name", ["testbed-micr", "no/such/folder", "tasks"])
def test_a_pair_that_is_none(own: Own, name: str) -> None:
    sweep = own.folder / "sweep.yaml"
    sweep.write_text(
        f"name: own\npair: {{vlm: {name}, reference: ref}}\narm: {{mix: mix.yaml, steps: 2}}\n"
        "baselines: [{}]\ntasks: [tasks/vision.yaml]\n"
    )
    with pytest.raises(MixlabError, match=r"pair\.vlm: '.*' is neither a model folder"):
        run_sweep(sweep, out="out")
    assert not (Path("out") / "study.json").exists()
