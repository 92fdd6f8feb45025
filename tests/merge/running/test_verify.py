from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import write_model
from tiny_pair import write_pair

from mixlab.merge import execute, merge_checkpoints, verify, verify_merge
from mixlab.spec import MixlabError
from tests.merge.merging import planned, recipe_of

UP = "model.layers.1.mlp.up_proj.weight"
KEPT = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    """A random method, one scope, tensors of several parts."""
    about: dict[str, Any] = {"vocab": 300, "width": 64, "dtype": torch.bfloat16}
    a, b = (write_model(tmp_path / n, seed=i, **about) for i, n in enumerate("ab"))
    return recipe_of(
        "dare_linear", [a], base=b, settings={"density": 0.5}, scope=["*.1.*", "*embed*"], seed=7
    )


def change(folder: Path, name: str, row: int) -> None:
    file = folder / "model.safetensors"
    state = load_file(file)
    state[name][row, 0] += 1
    save_file(state, file, {"format": "pt"})


def test_every_bit_agrees_however_it_is_cut(
    recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixlab.merge.running._verify._PART_BYTES", 1)
    with planned(recipe) as plan:
        execute(plan, tmp_path / "out")
        report = verify(tmp_path / "out", plan, sample="all", load=False)
    assert (report.mixed, report.of_mixed, report.kept) == (10, 10, 11)


@pytest.mark.parametrize("name", [UP, KEPT])
def test_one_changed_value_is_found(recipe: dict[str, Any], tmp_path: Path, name: str) -> None:
    with planned(recipe) as plan:
        execute(plan, tmp_path / "out")
        change(tmp_path / "out", name, 1)
        with pytest.raises(MixlabError, match=rf"1 tensors differ .*{name} \([12] bytes\)"):
            verify(tmp_path / "out", plan, sample="all", load=False)


def test_a_sample_is_drawn_by_its_seed(recipe: dict[str, Any], tmp_path: Path) -> None:
    with planned(recipe) as plan:
        execute(plan, tmp_path / "out")
        change(tmp_path / "out", UP, 0)
        found = 0
        for seed in range(12):
            try:
                report = verify(tmp_path / "out", plan, sample=4, seed=seed, load=False)
                assert (report.mixed, report.kept) == (4, 4)
            except MixlabError:
                found += 1
    assert 0 < found < 12


def test_another_recipe_is_told(recipe: dict[str, Any], tmp_path: Path) -> None:
    with planned(recipe) as plan:
        execute(plan, tmp_path / "out")
    with (
        planned({**recipe, "seed": 8}) as plan,
        pytest.raises(MixlabError, match="10 tensors differ"),
    ):
        verify(tmp_path / "out", plan, sample="all", load=False)
    with (
        planned({**recipe, "out_dtype": "float32"}) as plan,
        pytest.raises(MixlabError, match=r"is BF16\[.*but the plan has F32"),
    ):
        verify(tmp_path / "out", plan, load=False)


def test_a_folder_without_a_marker_is_no_merge(recipe: dict[str, Any], tmp_path: Path) -> None:
    with (
        planned(recipe) as plan,
        pytest.raises(MixlabError, match=r"no mixlab_merge\.json"),
    ):
        verify(tmp_path / "a", plan)


def test_a_merge_is_verified_by_its_marker_alone(recipe: dict[str, Any], tmp_path: Path) -> None:
    merge_checkpoints({**recipe, "models": [str(tmp_path / "a")]}, tmp_path / "out", seed=9)
    assert verify_merge(tmp_path / "out", sample="all").mixed == 10
    change(tmp_path / "out", UP, 0)
    with pytest.raises(MixlabError, match="differ"):
        verify_merge(tmp_path / "out", sample="all")


@pytest.mark.parametrize("tied", [True, False])
def test_merged_pairs_load_in_transformers_and_stay_tied(tmp_path: Path, tied: bool) -> None:
    from transformers import LlavaForConditionalGeneration

    reference, vlm = write_pair(tmp_path, tie_word_embeddings=tied)
    recipe = recipe_of("linear", [{"model": str(vlm), "weight": 0.75}, str(reference)])
    report = merge_checkpoints(recipe, tmp_path / "out", check="all")
    assert report.checks[1].startswith("LlavaForConditionalGeneration loads it")
    merged = LlavaForConditionalGeneration.from_pretrained(tmp_path / "out")
    head, table = merged.lm_head.weight, merged.get_input_embeddings().weight
    assert (head is table) == tied
    names = {name for file in (tmp_path / "out").glob("*.safetensors") for name in load_file(file)}
    assert any("lm_head" in name for name in names) == (not tied)


def test_keys_that_do_not_fit_the_config_are_named(tmp_path: Path) -> None:
    reference, vlm = write_pair(tmp_path)
    recipe = recipe_of("linear", [str(vlm), str(reference)])
    with planned(recipe) as plan:
        execute(plan, tmp_path / "out")
        config = json.loads((tmp_path / "out" / "config.json").read_text())
        config["text_config"]["num_hidden_layers"] = 3
        (tmp_path / "out" / "config.json").write_text(json.dumps(config))
        with pytest.raises(MixlabError, match=r"finds missing .*layers\.2\."):
            verify(tmp_path / "out", plan)
