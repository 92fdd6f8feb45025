"""Mistakes in a file come with its line; what is not supported is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixlab.merge.mergekit_yaml import is_mergekit, plan_mergekit, read_documents
from mixlab.spec import MixlabError

LINEAR = "merge_method: linear\nmodels:\n  - {model: a}\n  - {model: b}\n"
SLICE = "{sources: [{model: a, layer_range: [0, 2]}]"
WRONG = [
    ("merge_method: linaer\nmodels: [{model: a}]\n", 1, "did you mean 'linear'"),
    (LINEAR + "paramters: {weight: 1}\n", 5, "did you mean 'parameters'"),
    (LINEAR + "parameters:\n  wieght: 1\n", 6, "did you mean 'weight'"),
    (LINEAR + "parameters:\n  weight: many\n", 6, "found 'many'"),
    (LINEAR + "parameters:\n  weight: [1, {value: 2}]\n", 6, "list of values"),
    (LINEAR + "parameters:\n  weight: [{filter: mlp, values: 2}]\n", 6, "value: and filter:"),
    (LINEAR, 1, "needs 'weight'"),
    (LINEAR + "dtype: int8\nparameters: {weight: 1}\n", 5, "dtype"),
    (LINEAR + "slices: []\nmodules: {}\nbase_mdoel: a\n", 7, "did you mean 'base_model'"),
    ("merge_method: linear\n", None, "one of models:, slices: and modules:"),
    ("merge_method: ties\nmodels: [{model: a}]\nparameters: {weight: 1}", 1, "give base_model"),
    ("merge_method: slerp\nbase_model: a\nmodels: [{model: b}, {model: c}]\n", 3, "1 models"),
    ("merge_method: linear\nmodels: [{model: a}, {model: a}]\n", 2, "stands twice"),
    ("merge_method: linear\nmodels:\n  - model: a\n  - model: nowhere\n", 4, "such model folder"),
    (LINEAR + "tokenizer_source: nowhere\nparameters: {weight: 1}\n", 5, "expected union, base"),
    (LINEAR + "parameters:\n  weight: .nan\n", 6, "parameters.weight: found nan, expected a"),
    (f"merge_method: passthrough\nslices:\n  - {SLICE}, residual_weight: 0.5}}\n", 3, "residual_w"),
    (
        f"merge_method: passthrough\nslices:\n  - {SLICE}}}\n"
        "  - {sources: [{model: b, layer_range: [3, 5]}]}\n",
        4,
        "b has 4 blocks",
    ),
    (
        "merge_method: passthrough\nslices:\n- sources:\n  - model: a\n    layer_range: [3, 3]\n",
        5,
        "is empty",
    ),
    (
        "merge_method: task_arithmetic\nbase_model: c\nparameters: {weight: 1}\nslices:\n"
        f"  - {SLICE}}}\n",
        5,
        "base_model c is not among the sources",
    ),
    (
        "merge_method: linear\nmodules:\n  text: {models: [{model: a}]}\n"
        "  vision: {models: [{model: a}]}\n",
        2,
        "not supported",
    ),
    (
        "merge_method: linear\nmodels:\n  - model: {model: a, override_architecture: X}\n",
        3,
        "override_architecture is not supported",
    ),
    (LINEAR + "tokenizer_source: union\ntokenizer: {source: base}\n", None, "exclude each other"),
    ("merge_method: ties\nbase_model: a\nmodels: [{model: b}]\nparameters: {weight: 1, density: 2}",
     4, "density"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "told"), WRONG)
def test_a_mistake_is_told_with_its_line(
    text: str, line: int | None, told: str, in_zoo: Path, tmp_path: Path
) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(text)
    with pytest.raises(MixlabError) as caught, plan_mergekit(file):
        pass
    assert told in str(caught.value)
    if line is not None:
        assert str(caught.value).startswith(f"{file}:{line}: ")


def test_a_tag_or_a_key_given_twice_is_refused(in_zoo: Path, tmp_path: Path) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(LINEAR + "parameters: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(MixlabError, match=r"merge.yaml:5: is not valid YAML"):
        read_documents(file)
    file.write_text(LINEAR + "merge_method: ties\n")
    with pytest.raises(MixlabError, match="given twice"):
        read_documents(file)


def test_overrides_and_the_language_of_a_file(in_zoo: Path, tmp_path: Path) -> None:
    file = tmp_path / "merge.yaml"
    file.write_text(LINEAR)
    (document,) = read_documents(file, ["parameters.weight=0.25", "models.1.model=c"])
    assert document.settings.parameters == {"weight": 0.25}
    assert document.settings.models is not None
    assert document.settings.models[1].model.path == "c"
    assert is_mergekit(file)
    assert not is_mergekit({"method": "linear", "models": ["a"]})


def test_settings_without_effect_and_filters_without_tensor_are_told(in_zoo: Path) -> None:
    text = {
        "merge_method": "linear",
        "models": [{"model": "a"}, {"model": "b"}],
        "parameters": {
            "weight": [{"filter": "experts", "value": 3}, {"value": [0.1, 0.9]}],
            "density": 0.5,
            "int8_mask": True,
        },
    }
    with plan_mergekit(text) as (stage,):
        told = "\n".join(stage.plan.warnings)
        assert "density has no effect in linear" in told
        assert "int8_mask" not in told
        assert "filter 'experts' fits no tensor" in told
        assert "a gradient over layers counts with its first value" in told
        head = next(t for t in stage.plan.tensors if t.name == "lm_head.weight")
        assert head.settings["weight"] == (0.1, 0.1)
        assert head.because == "first value of the gradient (outside the blocks)"
        inner = next(t for t in stage.plan.tensors if ".3.mlp.up_proj" in t.name)
        assert (inner.settings["weight"], inner.because) == ((0.9, 0.9), "mixed")
        assert (inner.layer, inner.layers) == (3, 4)


def test_what_no_slice_takes_is_listed_as_dropped(in_zoo: Path) -> None:
    slices = [{"sources": [{"model": "a", "layer_range": [0, 3]}]}]
    with plan_mergekit({"merge_method": "passthrough", "slices": slices}) as (stage,):
        plan = stage.plan
        assert plan.config["num_hidden_layers"] == 3
        assert plan.counts() == {"keep": 30, "drop": 9}
        dropped = [t for t in plan.tensors if t.action == "drop"]
        assert {t.because for t in dropped} == {"no slice takes it"}
        assert all(".layers.3." in t.name for t in dropped)
