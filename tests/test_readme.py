"""What the README shows runs as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from mixlab.merge import load_recipe, plan_merge

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str, word: str) -> str:
    """The one code block of a language that holds a word."""
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    (one,) = [text for text in found if word in text]
    return one


@pytest.fixture
def pair_here(
    micro_testbed: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    # The testbed's VLM has its reference's backbone; here it has moved.
    shutil.copytree(micro_testbed.vlm, tmp_path / "my-vlm")
    (weights,) = (tmp_path / "my-vlm").glob("*.safetensors")
    moved = {name: tensor * 1.1 for name, tensor in load_file(weights).items()}
    save_file(moved, weights, metadata={"format": "pt"})
    (tmp_path / "my-reference-lm").symlink_to(micro_testbed.reference)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_merge_example_runs(pair_here: Path) -> None:
    code = block("python", "MergePath")
    assert len(code.strip().splitlines()) <= 12
    weights: list[torch.Tensor] = []

    def evaluate(model: torch.nn.Module) -> None:
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))

    names: dict[str, object] = {"evaluate": evaluate}
    exec(compile(code, "README.md", "exec"), names)
    assert len(weights) == 4
    assert not torch.equal(weights[0], weights[2])
    merged = names["merged"]
    assert isinstance(merged, dict)
    assert merged.keys() == names["tuned"].keys()  # type: ignore[attr-defined]


def test_the_recipe_mixes_what_its_rules_name_and_nothing_else(pair_here: Path) -> None:
    (pair_here / "recipe.yaml").write_text(block("yaml", "wise_ft"))
    plan = plan_merge(load_recipe("recipe.yaml"))
    mixed = {tensor.name for tensor in plan.written if tensor.action == "mix"}
    assert mixed
    assert all(".self_attn." in name or ".mlp." in name for name in mixed)
    assert not any("vision" in name for name in mixed)
