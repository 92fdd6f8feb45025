from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from tiny_checkpoints import write_model

from mixlab import __version__
from mixlab.merge import merge_checkpoints
from mixlab.merge.running._card import read_marker, shown_name
from mixlab.spec import MixlabError


def test_card_names_models_recipe_seed_digests_and_what_alpha_means(tmp_path: Path) -> None:
    a, b = (write_model(tmp_path / "models" / n, seed=i) for i, n in enumerate(("vlm", "lm")))
    recipe = {
        "method": "wise_ft",
        "base": str(b),
        "models": [str(a)],
        "settings": {"alpha": 0.25},
        "seed": 11,
    }
    report = merge_checkpoints(recipe, tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front) == {
        "base_model": ["vlm", "lm"],
        "base_model_relation": "merge",
        "library_name": "transformers",
        "tags": ["merge", "mixlab"],
    }
    assert "alpha weighs the tuned model: 0 is the reference" in body
    assert f"mixlab {__version__}" in body
    assert "Seed 11" in body
    for one in (*report.inputs, report.output):
        assert one.digest in body
        assert one.tensors == one.of == 21
    inside = body.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(inside)["settings"] == {"alpha": 0.25}
    # Folders stand in the recipe, as it was asked for, and nowhere else.
    assert str(tmp_path) not in body.replace(inside, "")


def test_marker_is_plain_json_and_does_not_depend_on_time_or_place(tmp_path: Path) -> None:
    a, b = (str(write_model(tmp_path / n, seed=i)) for i, n in enumerate("ab"))
    texts = []
    for place in ("x", "y"):
        merge_checkpoints({"method": "linear", "models": [a, b]}, tmp_path / place / "out")
        texts.append((tmp_path / place / "out" / "mixlab_merge.json").read_text())
    assert texts[0] == texts[1]
    marker = json.loads(texts[0])
    assert marker["recipe"] == {
        "method": "linear",
        "models": [{"model": a}, {"model": b}],
        "seed": 0,
    }
    assert marker["mixed"] == len(marker["tensors"]) == 21
    assert marker["output"]["digest"]


def test_a_recipe_cannot_end_its_fence(tmp_path: Path) -> None:
    a, b = (str(write_model(tmp_path / n, seed=i)) for i, n in enumerate("ab"))
    recipe = {"method": "linear", "models": [a, b], "description": "```\n# not a title\n```"}
    merge_checkpoints(recipe, tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    inside = text.split("````yaml\n")[1].split("\n````\n")[0]
    assert yaml.safe_load(inside)["description"] == recipe["description"]


def test_a_hub_snapshot_is_shown_by_its_id() -> None:
    folder = Path("/home/me/.cache/hub/models--org--some-model/snapshots/0123abc")
    assert shown_name(folder) == "org/some-model"
    assert shown_name(Path("/data/models/mine")) == "mine"


def test_a_damaged_marker_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "mixlab_merge.json").write_text('{"tensors": ')
    with pytest.raises(MixlabError, match=r"mixlab_merge\.json is damaged"):
        read_marker(tmp_path)
    (tmp_path / "mixlab_merge.json").write_text("{}")
    with pytest.raises(MixlabError, match="does not describe a merge"):
        read_marker(tmp_path)


def test_names_of_tensors_in_warnings_stay_though_a_model_is_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = write_model(tmp_path / "models" / "a")
    b = write_model(tmp_path / "models" / "b", change=lambda s: s.update(extra=torch.ones(1)))
    monkeypatch.chdir(a)
    merge_checkpoints({"method": "linear", "models": [".", b]}, tmp_path / "out")
    told = read_marker(tmp_path / "out")["warnings"]
    assert "1 tensor of b under extra (1 parameters) has no place in the output" in told
    assert any(word in text for text in told for word in (" . ", " ."))


def test_kept_tensors_name_every_model_that_they_are_of(tmp_path: Path) -> None:
    a, b = (str(write_model(tmp_path / n, seed=i)) for i, n in enumerate(("left", "right")))
    recipe = {
        "merge_method": "passthrough",
        "dtype": "float32",
        "slices": [
            {"sources": [{"model": a, "layer_range": [0, 2]}]},
            {"sources": [{"model": b, "layer_range": [1, 2]}]},
        ],
    }
    merge_checkpoints(recipe, tmp_path / "out")
    assert "30 kept from left and right, 12 dropped" in (tmp_path / "out" / "README.md").read_text()
