"""Files of several documents: each after those it names, outputs between them gone at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from mixlab.checkpoint import read_state
from mixlab.merge import merge_checkpoints, preview_merge
from mixlab.merge.mergekit_yaml import plan_mergekit, read_documents
from mixlab.spec import MixlabError
from tests.merge.mergekit_yaml.conftest import Run

THREE = """
merge_method: slerp
base_model: first
models: [{model: second}]
parameters: {t: [0.2, 0.8]}
---
name: second
merge_method: task_arithmetic
base_model: a
models: [{model: first, parameters: {weight: 0.5}}, {model: d, parameters: {weight: -0.3}}]
---
name: first
merge_method: linear
models: [{model: a}, {model: c}]
parameters: {weight: 0.5}
"""


@pytest.fixture(scope="module")
def expected(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """What mergekit-multi makes of the file."""
    from mergekit.graph import Executor
    from mergekit.options import MergeOptions
    from mergekit.scripts.multimerge import load_config, make_tasks

    folder = tmp_path_factory.mktemp("multi")
    text = THREE
    for name in ("a", "c", "d"):
        text = text.replace(f"model: {name}", f"model: {zoo / name}")
    configs, needs = load_config(text, str(folder))
    options = MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True)
    tasks = make_tasks(configs, needs, options, str(folder), str(folder / "out"), True)
    Executor(tasks, math_device="cpu", storage_device="cpu").execute()
    return read_state(folder / "out")


def test_the_output_is_that_of_mergekit_multi(
    expected: dict[str, torch.Tensor], in_zoo: Path, tmp_path: Path
) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(THREE)
    merge_checkpoints(file, tmp_path / "out")
    found = read_state(tmp_path / "out")
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)
    # Nothing of what was made in between is left.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["merge.yaml", "out"]


def test_documents_are_planned_in_order_before_the_first_is_carried_out(
    in_zoo: Path, tmp_path: Path
) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(THREE)
    with plan_mergekit(file) as stages:
        assert [stage.name for stage in stages] == ["first", "second", None]
        assert [stage.ready for stage in stages] == [True, False, False]
        assert stages[-1].plan.counts() == {"mix": 39}
    assert "slerp" in preview_merge(file)
    file.write_text(THREE.replace("t: [0.2, 0.8]", "t: 0.2, wieght: 1"))
    with pytest.raises(MixlabError, match="unknown setting 'wieght'"):
        merge_checkpoints(file, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["merge.yaml"]


def test_stages_draw_random_bits_of_their_own(in_zoo: Path, tmp_path: Path) -> None:
    file = tmp_path / "merge.yaml"
    one = "merge_method: dare_linear\nbase_model: a\nparameters: {weight: 1, density: 0.5}\n"
    file.write_text(f"name: x\n{one}models: [{{model: b}}]\n---\n{one}models: [{{model: x}}]\n")
    with plan_mergekit(file) as stages:
        keys = [[source.key for source in stage.plan.sources] for stage in stages]
    assert keys == [["x/model-0", "x/model-1"], ["model-0", "model-1"]]


def test_a_finished_merge_tells_all_documents(in_zoo: Path, tmp_path: Path) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(THREE)
    with plan_mergekit(file) as stages:
        recipe = stages[-1].plan.recipe
    again = read_documents(yaml.safe_load(yaml.safe_dump(dict(recipe))))
    assert [d.settings for d in again] == [d.settings for d in read_documents(file)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\n{}---\nname: y\n{}", "0 documents without name:"),
        ("{}---\n{}", "2 documents without name:"),
        ("name: x\n{}---\nname: x\n{}---\n{}", "two documents are named 'x'"),
        ("name: ../x\n{}---\n{}", "folder's name"),
    ],
)
def test_names_of_documents(text: str, told: str, in_zoo: Path, tmp_path: Path) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(text.replace("{}", "merge_method: passthrough\nmodels: [{model: a}]\n"))
    with pytest.raises(MixlabError, match=told):
        read_documents(file)


def test_documents_that_need_each_other_are_refused(in_zoo: Path, tmp_path: Path) -> None:
    file = tmp_path / "merge.yaml"
    one = "merge_method: passthrough\nmodels: [{model: %s}]\n"
    file.write_text(f"name: x\n{one % 'y'}---\nname: y\n{one % 'x'}---\n{one % 'x'}")
    with pytest.raises(MixlabError, match="circle: None -> x -> y -> x"):
        read_documents(file)


def test_a_document_that_the_output_does_not_need_is_told(in_zoo: Path, tmp_path: Path) -> None:
    file = tmp_path / "merge.yaml"
    one = "merge_method: passthrough\nmodels: [{model: a}]\n"
    file.write_text(f"{one}---\nname: aside\n{one}")
    with plan_mergekit(file) as (stage,):
        assert any("does not need it: aside" in told for told in stage.plan.warnings)


def test_one_document_may_have_a_name(ours: Run) -> None:
    found, _ = ours("name: x\nmerge_method: passthrough\nmodels: [{model: a}]\n")
    assert len(found) == 39
