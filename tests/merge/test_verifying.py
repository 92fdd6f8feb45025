"""Finished merges checked by their markers alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tiny_checkpoints import write_model
from typer.testing import CliRunner

from mixlab.cli import app
from mixlab.merge import VerifyError, merge_checkpoints, verify_merge
from mixlab.spec import MixlabError

UP = "model.layers.1.mlp.up_proj.weight"
STAGES = """
name: first
merge_method: dare_linear
base_model: b
models: [{model: a, parameters: {weight: 1.0, density: 0.5}}]
---
merge_method: linear
models: [{model: first}, {model: c}]
parameters: {weight: 0.5}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for seed, name in enumerate("abc"):
        write_model(tmp_path / name, seed=seed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def change(out: Path) -> None:
    state = load_file(out / "model.safetensors")
    state[UP][0, 0] += 1
    save_file(state, out / "model.safetensors", {"format": "pt"})


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["verify", *arguments])


def merge(folder: Path, text: str) -> Path:
    (folder / "merge.yaml").write_text(text)
    merge_checkpoints(folder / "merge.yaml", folder / "out", seed=3)
    return folder / "out"


OWN = "method: dare_linear\nbase: b\nmodels: [a]\nsettings: {density: 0.5}\n"
THEIRS = STAGES.partition("---")[0].replace("name: first\n", "")


@pytest.mark.parametrize("text", [OWN, THEIRS, STAGES])
def test_the_command_agrees_then_names_the_tensor_that_was_changed(folder: Path, text: str) -> None:
    out = merge(folder, text)
    before = sorted(folder.iterdir())
    found = call(str(out), "--all", "--threads", "1")
    assert found.exit_code == 0, found.output
    assert "21 of 21 mixed tensors computed again" in found.output
    assert "4 of 21 mixed" in call(str(out), "--sample", "4").output
    change(out)
    found = call(str(out), "--all")
    assert found.exit_code == 1
    assert re.fullmatch(rf"{re.escape(UP)}: [1-4] bytes\n", found.stdout)
    assert f"1 tensors differ from what the inputs give: {UP}" in found.stderr
    # Nothing of what was made again is left.
    assert sorted(folder.iterdir()) == before


def test_tensors_that_are_not_there_are_told_with_exit_code_1(folder: Path) -> None:
    out = merge(folder, OWN)
    state = load_file(out / "model.safetensors")
    save_file({"model.x": state.pop(UP), **state}, out / "model.safetensors", {"format": "pt"})
    found = call(str(out))
    assert found.exit_code == 1
    assert f"{UP}: missing, but the plan has F32" in found.stdout


def test_a_folder_that_does_not_load_is_a_failure(folder: Path) -> None:
    out = merge(folder, OWN)
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(VerifyError, match=r"finds missing .*layers\.2\."):
        verify_merge(out)


def test_what_is_no_merge_is_no_failed_one(folder: Path) -> None:
    for place in ("a", "nowhere"):
        found = call(place)
        assert type(found.exception) is MixlabError  # exit code 2
        assert f"{place}: no mixlab_merge.json, so this is no finished" in str(found.exception)


@pytest.mark.parametrize("text", [OWN, THEIRS, STAGES])
def test_inputs_that_moved_are_named_and_may_be_given_anew(folder: Path, text: str) -> None:
    out = merge(folder, text)
    (folder / "far").mkdir()
    for name in "ab":
        (folder / name).rename(folder / "far" / name)
    with pytest.raises(MixlabError, match=r"inputs are not where they were: (a, b|b, a)\. Give"):
        verify_merge(out)
    with pytest.raises(MixlabError, match=r"inputs are not where they were: b\. .*--model b=DIR"):
        verify_merge(out, models={"a": folder / "far" / "a"})
    moved = [f"--model={name}={folder / 'far' / name}" for name in "ab"]
    found = call(str(out), "--all", *moved)
    assert found.exit_code == 0, found.exception
    with pytest.raises(MixlabError, match=r"no (input|model) 'stranger'"):
        verify_merge(out, models={"stranger": folder / "c"})


def test_other_weights_in_an_inputs_place_are_a_failure(folder: Path) -> None:
    out = merge(folder, OWN)
    with pytest.raises(VerifyError) as caught:
        verify_merge(out, models={"a": folder / "c"}, sample="all")
    assert UP in caught.value.tensors
