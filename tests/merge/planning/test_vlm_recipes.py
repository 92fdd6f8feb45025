"""Recipes with `vlm:` and `reference:`: roles for every method, and the language model alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_checkpoints import LAYOUTS, write_model
from typer.testing import CliRunner

from merge.merging import state_of
from mixlab.cli import app
from mixlab.merge import (
    get_method,
    merge_checkpoints,
    method_names,
    pair_recipe,
)
from mixlab.merge.planning._recipe import load_recipe
from mixlab.spec import MixlabError

WORDS = {f"w{i}": i for i in range(11)}
GIVEN: dict[str, dict[str, Any]] = {
    "wise_ft": {"alpha": 0.5}, "lines": {"alpha": 0.5}, "slerp": {"t": 0.3},
    "nearswap": {"t": 0.1}, "keep_far_movers": {"share": 0.5}, "task_arithmetic": {"lambda": 0.5},
}  # fmt: skip


def pair_of(tmp_path: Path, layout: str = "llava", **about: Any) -> tuple[Path, Path]:
    return (
        write_model(tmp_path / "vlm", layout=layout, tokenizer=WORDS, seed=1, **about),
        write_model(tmp_path / "lm", tokenizer=WORDS, seed=2, **about),
    )


def recipe(pair: tuple[Path, Path], method: str = "wise_ft", **more: Any) -> dict[str, Any]:
    settings = GIVEN.get(method, {"density": 0.5})
    return {
        "method": method, "vlm": str(pair[0]), "reference": str(pair[1]),
        "settings": settings, **more,
    }  # fmt: skip


@pytest.mark.parametrize("method", sorted(method_names()))
def test_the_reference_is_the_base_where_the_method_measures_from_one(method: str) -> None:
    about = get_method(method)
    given = load_recipe_loosely(method, vlm="v", reference="r")
    models, base = [entry.model for _, entry in given.merged], given.origin
    if about.base == "required":
        assert (models, base) == (["v"], (("reference",), "r"))
    else:  # those that may have a base take two models or more
        assert (models, base) == (["v", "r"], None)


def load_recipe_loosely(method: str, **about: Any) -> Any:
    """The recipe without its checks, which ask for settings."""
    from mixlab.merge.planning._recipe import Recipe

    return Recipe.model_validate({"method": method, **about})


def test_an_ancestor_as_base_leaves_the_reference_a_model() -> None:
    given = load_recipe(
        {"method": "ties", "base": "a", "vlm": "v", "reference": "r", "models": ["x"],
         "settings": {"density": 0.5}}
    )  # fmt: skip
    assert [entry.model for _, entry in given.merged] == ["v", "r", "x"]
    assert given.origin == (("base",), "a")


def test_settings_stand_beside_each() -> None:
    given = load_recipe(
        {
            "method": "linear",
            "vlm": {"model": "vlm", "weight": 0.7},
            "reference": {"model": "reference", "weight": 0.3},
        },
        models={"vlm": "a", "reference": "b"},
    )
    again = load_recipe(given.plain())
    assert [(e.model, e.settings) for _, e in again.merged] == [
        ("a", {"weight": 0.7}),
        ("b", {"weight": 0.3}),
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reference": None}, "'vlm' without 'reference'"),
        ({"vlm": None}, "'reference' without 'vlm'"),
        ({"target": 0}, "the output is made after the VLM"),
        ({"reference": {"model": "r", "weight": 1}}, "measures from the reference"),
        ({"vlm": {"model": "v", "wieght": 1}}, "unknown key 'wieght'"),
        ({"vlm": None, "reference": None}, "no model; list those that are merged"),
    ],
)
def test_mistakes_in_roles(change: dict[str, Any], told: str) -> None:
    given = {"method": "wise_ft", "vlm": "v", "reference": "r", "settings": {"alpha": 0.5}}
    data = {key: value for key, value in {**given, **change}.items() if value is not None}
    with pytest.raises(MixlabError, match=told):
        load_recipe(data)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "lm"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_alpha_1_is_the_vlm_and_alpha_0_the_reference(
    tmp_path: Path, layout: str, alpha: float
) -> None:
    pair = pair_of(tmp_path, layout, dtype=torch.bfloat16)
    merge_checkpoints(pair_recipe(*pair, alpha=alpha), tmp_path / "out")
    vlm, lm, out = state_of(pair[0]), state_of(pair[1]), state_of(tmp_path / "out")
    body, head, _ = LAYOUTS[layout]
    assert out.keys() == vlm.keys()
    for name, tensor in out.items():
        own = name.replace(head, "lm_head.").replace(body, "model.")
        assert torch.equal(tensor, lm[own] if alpha == 0 and own in lm else vlm[name]), name


@pytest.mark.parametrize("method", ["ties", "slerp", "linear", "sce", "della"])
def test_all_but_the_language_model_stays_bit_for_bit(tmp_path: Path, method: str) -> None:
    pair = pair_of(tmp_path)
    given = recipe(pair, method)
    if method in ("linear", "sce"):
        given["settings"] = {}
    merge_checkpoints(given, tmp_path / "out")
    vlm, out = state_of(pair[0]), state_of(tmp_path / "out")
    changed = {name for name in vlm if not torch.equal(vlm[name], out[name])}
    assert changed == {name for name in vlm if name.startswith("language_model.")}


def test_a_further_vlm_gives_its_language_model_alone(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    other = write_model(tmp_path / "other", layout="llava", tokenizer=WORDS, seed=3)
    merge_checkpoints(recipe(pair, "ties", models=[str(other)]), tmp_path / "out")
    vlm, out = state_of(pair[0]), state_of(tmp_path / "out")
    name = "vision_tower.blocks.0.mlp.fc1.weight"
    assert torch.equal(out[name], vlm[name])


def test_the_line_of_the_shell(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    out = tmp_path / "out"
    line = ["merge", "--vlm", str(pair[0]), "--reference", str(pair[1]), "--alpha", "0.7"]
    dry = CliRunner().invoke(app, [*line, "--dry-run"])
    assert "alpha 0.7: theta = (1 - alpha) * reference + alpha * VLM" in dry.output, dry.output
    result = CliRunner().invoke(app, [*line, str(out)])
    assert result.exit_code == 0, result.output
    assert "alpha 1 is the VLM untouched" in result.output
    assert "alpha 0.7: theta" in (out / "README.md").read_text()
    name = "language_model.model.norm.weight"
    vlm, lm = state_of(pair[0])[name], state_of(pair[1])["model.norm.weight"]
    torch.testing.assert_close(state_of(out)[name], 0.7 * vlm + 0.3 * lm)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--vlm", "v", "out"], "--vlm and --reference go together"),
        (["--vlm", "v", "--reference", "r", "out"], "Give --alpha, from 0"),
        (["--vlm", "v", "--reference", "r", "--alpha", "0.5"], "expected RECIPE and OUT"),
        (["--vlm", "v", "--reference", "r", "--alpha", "0.5", "x", "out"], "x beside --vlm"),
        (["--vlm", "v", "--reference", "r", "--alpha", "7", "out"], "alpha"),
    ],
)
def test_mistakes_on_the_line(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["merge", *arguments])
    assert isinstance(result.exception, MixlabError)
    assert told in str(result.exception)


def test_another_method_on_the_line(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    result = CliRunner().invoke(
        app,
        ["merge", "--vlm", str(pair[0]), "--reference", str(pair[1]), "--method", "ties",
         "--set", "settings.density=0.5", "--dry-run"],
    )  # fmt: skip
    assert "method ties" in result.output, (result.output, result.exception)


def test_gguf_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "model-q4.gguf").touch()
    for given in (tmp_path, tmp_path / "model-q4.gguf"):
        with pytest.raises(MixlabError) as caught:
            merge_checkpoints(pair_recipe(given, given, alpha=0.5), tmp_path / "out")
        assert "gguf_file='model-q4.gguf').save_pretrained(DIR)" in str(caught.value)
