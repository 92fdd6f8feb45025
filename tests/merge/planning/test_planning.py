from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_checkpoints import LAYOUTS, make_config, make_state, write_folder, write_model

from mixlab.checkpoint import Checkpoint
from mixlab.merge import get_method, method_names
from mixlab.merge._method import spelled
from mixlab.merge._plan import MergePlan, TensorPlan
from mixlab.merge.display._cost import plan_cost
from mixlab.merge.planning._planning import plan_merge
from mixlab.merge.planning._recipe import load_recipe
from mixlab.spec import MixlabError

UP = "model.layers.1.mlp.up_proj.weight"
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"
State = dict[str, torch.Tensor]


def plan_of(*models: Path, **more: Any) -> MergePlan:
    recipe = {"method": "linear", "models": list(models), **more}
    plan = plan_merge(load_recipe(recipe))
    for source in plan.sources:
        assert isinstance(source, Checkpoint)
        source.close()
    return plan


def refused(*models: Path, **more: Any) -> str:
    with pytest.raises(MixlabError) as caught:
        plan_of(*models, **more)
    return str(caught.value)


def by_name(plan: MergePlan, action: str = "mix") -> dict[str, TensorPlan]:
    return {tensor.name: tensor for tensor in plan.tensors if tensor.action == action}


def without(name: str) -> Any:
    return lambda state: state.pop(name)


def with_(name: str, tensor: torch.Tensor) -> Any:
    return lambda state: state.update({name: tensor})


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return write_model(tmp_path / "a", seed=1, shards=2), write_model(tmp_path / "b", seed=2)


def test_every_tensor_is_mixed_in_the_targets_order(pair: tuple[Path, Path]) -> None:
    plan = plan_of(*pair)
    assert [tensor.name for tensor in plan.written] == list(Checkpoint(pair[0]).entries)
    assert plan.counts() == {"mix": 21}
    up = by_name(plan)[UP]
    assert [(one.model, one.entry.name) for one in up.inputs] == [(0, UP), (1, UP)]
    assert (up.layer, up.layers, up.settings["weight"]) == (1, 2, (1.0, 1.0))
    assert plan.config["num_hidden_layers"] == 2


@pytest.mark.parametrize("layout", ["llava", "qwen2_vl", "qwen3_vl"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_language_model_is_found_inside_a_vlm(tmp_path: Path, layout: str, tied: bool) -> None:
    vlm = write_model(tmp_path / "vlm", layout=layout, tied=tied)
    reference = write_model(tmp_path / "lm", tied=tied)
    plan = plan_of(vlm, method="wise_ft", base=reference, settings={"alpha": 0.5})
    assert len(by_name(plan)) == 20 + (not tied)
    kept = by_name(plan, "keep")
    assert len(kept) == 3
    assert all(tensor.because.startswith("only in the target") for tensor in kept.values())
    body, head, _ = LAYOUTS[layout]
    for name, tensor in by_name(plan).items():
        assert tensor.base is not None
        assert tensor.base.entry.name == name.replace(body, "model.").replace(head, "lm_head.")
    assert not by_name(plan, "drop")


def test_a_vlm_merged_into_a_language_model_says_what_is_lost(tmp_path: Path) -> None:
    vlm, lm = write_model(tmp_path / "vlm", layout="llava"), write_model(tmp_path / "lm")
    plan = plan_of(lm, vlm)
    assert set(by_name(plan, "drop")) == {
        "vision_tower.patch_embed.weight",
        "vision_tower.blocks.0.mlp.fc1.weight",
        "multi_modal_projector.weight",
    }
    assert any("2 tensors" in w and "vision_tower (160 parameters)" in w for w in plan.warnings)


def test_names_by_hand(tmp_path: Path) -> None:
    state = {f"text.{name}": tensor for name, tensor in make_state(seed=3).items()}
    other = write_folder(tmp_path / "b", state, make_config())
    models = [{"model": str(other), "names": {"text.": ""}}]
    plan = plan_of(method="wise_ft", models=models, base=write_model(tmp_path / "a"), target="base",
                   settings={"alpha": 0.5})  # fmt: skip
    assert by_name(plan)[UP].inputs[0].entry.name == f"text.{UP}"


def test_planning_reads_no_weights(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(Checkpoint, "read_into", refuse)
    assert plan_of(*pair).counts() == {"mix": 21}


# Scope and schedules


def test_what_the_scope_does_not_name_is_kept(pair: tuple[Path, Path]) -> None:
    plan = plan_of(*pair, scope=["model.layers.0.*", "model.norm.*"])
    assert set(by_name(plan)) == {
        name for name in make_state() if name.startswith(("model.layers.0.", "model.norm."))
    }
    assert {tensor.because for tensor in by_name(plan, "keep").values()} == {"scope"}


def test_a_scope_may_use_the_names_of_either_model(tmp_path: Path) -> None:
    vlm, lm = write_model(tmp_path / "vlm", layout="llava"), write_model(tmp_path / "lm")
    plan = plan_of(vlm, lm, scope=["model.layers.1.mlp.*"])
    assert set(by_name(plan)) == {
        f"language_model.model.layers.1.mlp.{part}_proj.weight" for part in ("gate", "up", "down")
    }


def test_a_scope_that_matches_nothing_is_an_error(pair: tuple[Path, Path]) -> None:
    told = refused(*pair, scope=["model.layers.*", "mlp"])
    assert "'mlp'" in told
    assert "matches no tensor" in told


def test_a_scope_of_tensors_that_only_the_target_has_is_an_error(tmp_path: Path) -> None:
    vlm, lm = write_model(tmp_path / "vlm", layout="llava"), write_model(tmp_path / "lm")
    told = refused(vlm, lm, scope=["*.layers.*", "vision_tower.*"])
    assert "'vision_tower.*' matches 2 tensors, none of which is merged (only in the" in told


def test_a_layer_schedule_names_blocks_only(pair: tuple[Path, Path]) -> None:
    plan = plan_of(pair[0], method="wise_ft", base=pair[1], settings={"alpha": [0.0, 1.0]})
    assert {t.settings["alpha"] for t in by_name(plan).values() if t.layer == 1} == {1.0}
    assert set(by_name(plan, "keep")) == {EMBED, HEAD, "model.norm.weight"}


def test_a_rule_that_matches_nothing_points_at_its_line(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"method: wise_ft\nbase: {pair[1]}\nmodels: [{pair[0]}]\nsettings:\n"
        "  alpha:\n  - {match: '*.experts.*', value: 1}\n  - {value: 0.5}\n"
    )
    with pytest.raises(MixlabError, match=rf"{path}:5: alpha: rule .*experts"):
        plan_merge(load_recipe(path))


def test_a_schedules_value_out_of_range_is_an_error(pair: tuple[Path, Path]) -> None:
    told = refused(pair[0], method="wise_ft", base=pair[1], settings={"alpha": [0.0, 1.5]})
    assert "model.layers.1." in told
    assert "less than or equal to 1, found 1.5" in told


def test_a_schedule_for_other_layers_is_an_error(pair: tuple[Path, Path]) -> None:
    alpha = {"layers": [0, 0.5, 1]}
    told = refused(pair[0], method="wise_ft", base=pair[1], settings={"alpha": alpha})
    assert "3 values, the model has 2 layers" in told


def test_models_whose_schedules_disagree_are_an_error(pair: tuple[Path, Path]) -> None:
    late = {"late": 1.0, "from": 0.5}
    models: list[dict[str, Any]] = [
        {"model": str(pair[0]), "weight": late},
        {"model": str(pair[1]), "weight": [0.5, 0.5]},
    ]
    assert "does not name model.layers.0." in refused(models=models)
    models[1]["weight"] = 0.5
    assert {tensor.layer for tensor in by_name(plan_of(models=models)).values()} == {1}


def test_nothing_merged_is_an_error(pair: tuple[Path, Path]) -> None:
    told = refused(*pair, settings={"weight": [{"module": "mlp", "value": None}]})
    assert "nothing would be merged (21 tensors kept: schedule does not name it)" in told


def test_settings_that_a_formula_refuses_are_refused_before_it_runs(
    pair: tuple[Path, Path],
) -> None:
    models = [{"model": str(pair[0]), "weight": 1}, {"model": str(pair[1]), "weight": -1}]
    assert "sum to 0" in refused(models=models)


# Tensors that do not fit


def test_a_block_tensor_missing_on_one_side(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    other = write_model(tmp_path / "c", change=without(UP))
    told = refused(pair[0], other)
    assert UP in told
    assert str(Checkpoint(pair[0]).file_of(UP)) in told
    assert str(other) in told
    plan = plan_of(pair[0], other, missing="keep")
    assert list(by_name(plan, "keep")) == [UP]
    plan_of(pair[0], other, scope=["model.layers.0.*"])


def test_a_block_tensor_that_the_target_lacks(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    target = write_model(tmp_path / "c", change=without(UP))
    told = refused(target, pair[0])
    assert f"{UP}: in {Checkpoint(pair[0]).file_of(UP)}, but {target} has no such tensor" in told
    plan = plan_of(target, pair[0], missing="keep")
    assert by_name(plan, "drop")[UP].because == "the target lacks it"


def test_more_layers_on_one_side(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    told = refused(pair[0], write_model(tmp_path / "c", layers=3))
    assert "9 places" in told
    assert "model.layers.2.mlp.up_proj.weight" in told


def test_shapes_and_dtypes_are_told_at_once_with_both_files(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    def change(state: State) -> None:
        state[UP] = torch.zeros(15, 8)
        state["model.norm.weight"] = torch.zeros(8, dtype=torch.int32)

    other = write_model(tmp_path / "c", change=change)
    told = refused(pair[0], other)
    assert "in 2 places" in told
    file = Checkpoint(pair[0]).file_of(UP)
    assert f"{UP}: [16, 8] in {file}, [15, 8] in {other}/model.safetensors" in told
    assert "model.norm.weight: F32 in" in told
    assert "I32 in" in told


def test_a_shape_that_differs_inside_a_vlm_is_named(tmp_path: Path) -> None:
    vlm = write_model(tmp_path / "vlm", layout="llava")
    lm = write_model(tmp_path / "lm", change=with_(UP, torch.zeros(15, 8)))
    told = refused(vlm, lm)
    file = "model.safetensors"
    expected = f"language_model.{UP}: [16, 8] in {vlm}/{file}, [15, 8] in {lm}/{file} ({UP})"
    assert expected in told


def test_blocks_of_a_vlm_of_other_depth_are_not_paired_by_number(tmp_path: Path) -> None:
    vlm = write_model(tmp_path / "vlm", layout="llava", layers=3)
    lm = write_model(tmp_path / "lm", layers=2)
    assert f"{lm} does not fit {vlm}" in refused(vlm, lm, missing="keep")


def test_another_architecture_is_refused(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    state = {f"transformer.h.{i}.attn.c.weight": torch.zeros(3, 3) for i in range(4)}
    other = write_folder(tmp_path / "c", state, make_config())
    assert str(other) in refused(pair[0], other)


def test_other_widths_are_allowed_and_said(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    other = write_model(tmp_path / "c", dtype=torch.bfloat16)
    plan = plan_of(pair[0], other)
    assert by_name(plan)[UP].dtype == "F32"
    assert any("21 tensors" in w and "BF16" in w and "F32" in w for w in plan.warnings)
    assert by_name(plan_of(other, pair[0]))[UP].dtype == "BF16"


def test_out_dtype_is_for_floating_tensors(tmp_path: Path) -> None:
    counts = with_("model.counts", torch.arange(3))
    a, b = (write_model(tmp_path / n, seed=i, change=counts) for i, n in enumerate("ab"))
    plan = plan_of(a, b, out_dtype="bfloat16", scope=["model.layers.*"])
    assert {t.name: t.dtype for t in plan.written if t.dtype != "BF16"} == {"model.counts": "I64"}
    assert plan.config["dtype"] == "bfloat16"


def test_integer_buffers_are_kept_where_equal_and_refused_where_not(tmp_path: Path) -> None:
    a, b, c = (
        write_model(tmp_path / n, change=with_("model.layers.0.ids", torch.arange(v, v + 4)))
        for n, v in (("a", 0), ("b", 0), ("c", 1))
    )
    plan = plan_of(a, b)
    assert by_name(plan, "keep")["model.layers.0.ids"].because == "integer buffer, equal in all"
    told = refused(a, c)
    assert "model.layers.0.ids: I64[4]" in told
    assert str(a) in told
    assert str(c) in told


def test_rotary_tables_are_kept_and_may_be_missing(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    other = write_model(tmp_path / "c", change=with_(name, torch.ones(4)))
    assert by_name(plan_of(other, pair[0]), "keep").keys() == {name}
    assert by_name(plan_of(pair[0], other), "drop").keys() == {name}
    third = write_model(tmp_path / "d", change=with_(name, torch.zeros(4)))
    assert any(name in warning for warning in plan_of(other, third).warnings)


# Quantised inputs


def test_a_quantised_config_is_refused(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    config = {"quantization_config": {"quant_method": "gptq"}}
    told = refused(pair[0], write_model(tmp_path / "c", config=config))
    assert "quantised (gptq)" in told
    assert "dequantize" in told


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float8_e4m3fn])
def test_packed_weights_are_refused(
    tmp_path: Path, pair: tuple[Path, Path], dtype: torch.dtype
) -> None:
    packed = with_(UP, torch.zeros(16, 8).to(dtype))
    a, b = (write_model(tmp_path / n, change=packed) for n in "cd")
    for models in [(a, b), (pair[0], a), (a, pair[0])]:
        told = refused(*models)
        assert UP in told
        assert "unquantised model" in told


# Tied weights and vocabularies


def test_a_tied_target_stays_tied(tmp_path: Path) -> None:
    target = write_model(tmp_path / "a", tied=True)
    other = write_model(tmp_path / "b", seed=1)
    plan = plan_of(target, other)
    assert HEAD not in {tensor.name for tensor in plan.written}
    assert by_name(plan, "drop")[HEAD].because == f"tied to {EMBED} in the target"
    assert any("lm_head.weight differs from" in warning for warning in plan.warnings)
    assert plan.config["tie_word_embeddings"] is True

    def tie(state: State) -> None:
        state[HEAD] = state[EMBED].clone()

    stored = write_model(tmp_path / "c", seed=1, tied=True, change=tie)
    assert not plan_of(target, stored).warnings[1:]


def test_a_head_that_is_stored_though_tied_is_merged_once(tmp_path: Path) -> None:
    def tie(state: State) -> None:
        state[HEAD] = state[EMBED].clone()

    a, b = (write_model(tmp_path / n, seed=i, tied=True, change=tie) for i, n in enumerate("ab"))
    plan = plan_of(a, b)
    assert by_name(plan, "drop").keys() == {HEAD}
    kept = plan_of(a, b, scope=["model.layers.*"])
    assert HEAD in by_name(kept, "keep")
    assert "name both or neither" in refused(a, b, scope=["model.layers.*", HEAD])


def test_a_config_that_ties_what_differs_is_mended(tmp_path: Path) -> None:
    a, b = (write_model(tmp_path / n, seed=i, config={"tie_word_embeddings": True})
            for i, n in enumerate("ab"))  # fmt: skip
    plan = plan_of(a, b)
    assert HEAD in by_name(plan)
    assert plan.config["tie_word_embeddings"] is False
    assert any("taken as separate" in warning for warning in plan.warnings)


def test_an_untied_target_takes_the_embeddings_of_a_tied_model(tmp_path: Path) -> None:
    target = write_model(tmp_path / "a")
    tied = write_model(tmp_path / "b", tied=True)
    plan = plan_of(target, tied)
    assert [one.entry.name for one in by_name(plan)[HEAD].inputs] == [HEAD, EMBED]
    assert any("ties its lm_head" in warning for warning in plan.warnings)
    claims = write_model(tmp_path / "c", change=without(HEAD))
    assert f"{HEAD}: in" in refused(target, claims)


def test_vocabularies_of_other_sizes(tmp_path: Path) -> None:
    large, small = (write_model(tmp_path / f"v{v}", vocab=v) for v in (13, 11))
    plan = plan_of(large, small)
    assert {n: t.rows for n, t in by_name(plan).items() if t.rows} == {EMBED: 11, HEAD: 11}
    assert "rows 0 to 10; the 2 beyond are the target's" in by_name(plan)[EMBED].because
    plan = plan_of(small, large)
    assert by_name(plan)[EMBED].rows is None
    assert any("the 2 beyond take no part" in warning for warning in plan.warnings)


VOCABULARY = {"a": 0, "b": 1, "c": 2}


def test_equal_tokenizers_need_no_word(tmp_path: Path) -> None:
    a, b = (write_model(tmp_path / n, tokenizer=VOCABULARY) for n in "ab")
    assert plan_of(a, b).warnings == ()


def test_tokens_with_other_ids_are_an_error_where_embeddings_are_mixed(tmp_path: Path) -> None:
    a = write_model(tmp_path / "a", tokenizer=VOCABULARY)
    b = write_model(tmp_path / "b", tokenizer={"a": 1, "b": 0, "c": 2})
    told = refused(a, b)
    assert "2 tokens have other ids" in told
    assert "'a' is 0 and 1" in told
    assert plan_of(a, b, scope=["model.layers.*"]).warnings == ()


def test_renamed_and_lone_tokens_are_a_warning(tmp_path: Path) -> None:
    a = write_model(tmp_path / "a", tokenizer={"a": 0, "b": 1, "<image>": 2, "z": 9})
    b = write_model(tmp_path / "b", tokenizer=VOCABULARY)
    renamed, lone = plan_of(a, b).warnings
    assert "1 ids stand for other tokens" in renamed
    assert "'<image>' for 'c'" in renamed
    assert "share 2 tokens with equal ids; 1 ids are only in" in lone


def test_a_broken_tokenizer_is_named(tmp_path: Path) -> None:
    a, b = (write_model(tmp_path / n, tokenizer=VOCABULARY) for n in "ab")
    (b / "tokenizer.json").write_text('{"model": 3}')
    assert f"{b}/tokenizer.json" in refused(a, b)


# Models and targets


def test_all_missing_folders_are_told(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    told = refused(tmp_path / "x", pair[0], tmp_path / "y")
    assert f"{tmp_path}/x" in told
    assert f"{tmp_path}/y" in told


def test_pickles_are_refused(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"x")
    assert "save_pretrained" in refused(pair[0], folder)


def test_the_target_by_number_role_and_path(pair: tuple[Path, Path]) -> None:
    more: dict[str, Any] = {"method": "wise_ft", "base": pair[1], "settings": {"alpha": 0.5}}
    assert plan_of(pair[0], **more).target == 0
    assert plan_of(pair[0], target="base", **more).target == 1
    assert plan_of(pair[0], target=pair[1], **more).target == 1
    assert plan_of(*pair, target=1).target == 1
    assert "models 0 to 1" in refused(*pair, target=2)
    assert "none of the models" in refused(*pair, target="elsewhere")


def test_keys_do_not_depend_on_where_models_stand(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    moved = tmp_path / "elsewhere" / "z"
    shutil.copytree(pair[0], moved)
    for models in [pair, (moved, pair[1])]:
        assert [source.key for source in plan_of(*models).sources] == ["model-0", "model-1"]
    recipe = load_recipe(
        {"method": "wise_ft", "base": "reference", "models": ["vlm"], "settings": {"alpha": 0}},
        models={"vlm": pair[0], "reference": pair[1]},
    )
    assert [source.key for source in plan_merge(recipe).sources] == ["model-0", "base"]
    again = load_recipe(plan_merge(recipe).recipe)
    assert [source.key for source in plan_merge(again).sources] == ["model-0", "base"]


def test_further_tensors_of_each_model(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    models = [{"model": str(m), "importance": str(pair[1])} for m in pair]
    plan = plan_of(method="fisher", models=models)
    assert [one.model for one in by_name(plan)[UP].extras] == [2, 3]
    part = write_folder(tmp_path / "c", {EMBED: torch.ones(11, 8)}, {})
    models[1]["importance"] = str(part)
    assert f"input_layernorm.weight: {part} has no tensor for it" in refused(
        method="fisher", models=models
    )
    plan = plan_of(method="fisher", models=models, scope=[EMBED])
    assert list(by_name(plan)) == [EMBED]


@pytest.mark.parametrize("name", method_names())
def test_every_method_can_be_planned(tmp_path: Path, pair: tuple[Path, Path], name: str) -> None:
    method = get_method(name)
    folders = [*pair, write_model(tmp_path / "c", seed=3)]
    count = max(method.models[0], 1)
    models: list[dict[str, Any]] = [{"model": str(folder)} for folder in folders[:count]]
    settings: dict[str, Any] = {}
    for key, field in method.shared.model_fields.items():
        if field.is_required():
            settings[spelled(key)] = 0.5
    for entry in models:
        for key, field in method.each.model_fields.items():
            if field.is_required():
                entry[spelled(key)] = 0.5
        if method.extra:
            entry[method.extra] = str(pair[0])
    base = {} if method.base == "none" else {"base": folders[count]}
    plan = plan_of(method=name, models=models, settings=settings, **base)
    assert plan.counts() == {"mix": 21}
    assert (by_name(plan)[UP].base is None) == (method.base == "none")


def test_configs_that_disagree_are_a_warning(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    other = write_model(tmp_path / "c", config={"num_attention_heads": 4})
    assert any("num_attention_heads 2 and 4" in w for w in plan_of(pair[0], other).warnings)


def test_the_plan_says_what_was_asked_for(pair: tuple[Path, Path]) -> None:
    plan = plan_of(*pair, seed=5)
    assert plan.seed == 5
    assert json.loads(json.dumps(plan.recipe)) == plan.recipe
    assert plan.recipe["models"] == [{"model": str(folder)} for folder in pair]


def test_the_cost_counts_bytes(pair: tuple[Path, Path]) -> None:
    weights = sum(e.stop - e.start for e in Checkpoint(pair[0]).entries.values())
    cost = plan_cost(plan_of(*pair))
    assert (cost.read, cost.written) == (2 * weights, weights)
    blocks = sum(
        e.stop - e.start for n, e in Checkpoint(pair[0]).entries.items() if ".layers." in n
    )
    cost = plan_cost(plan_of(*pair, scope=["model.layers.*"]))
    assert (cost.read, cost.written) == (weights + blocks, weights)


def test_a_model_that_is_the_base_is_a_warning(pair: tuple[Path, Path]) -> None:
    plan = plan_of(*pair, method="ties", base=pair[1])
    assert any(f"{pair[1]} is also the base" in warning for warning in plan.warnings)


def test_one_of_two_vlms_over_a_language_model(tmp_path: Path) -> None:
    first, second = (write_model(tmp_path / n, layout="llava", seed=i) for i, n in enumerate("ab"))
    plan = plan_of(first, second, method="task_arithmetic", base=write_model(tmp_path / "lm"))
    vision = by_name(plan, "keep")["vision_tower.patch_embed.weight"]
    assert vision.because == f"{tmp_path}/lm lacks it"
    assert len(by_name(plan)) == 21
    assert len(by_name(plan_of(first, second))) == 24


@settings(max_examples=25, deadline=None)
@given(data=st.data(), layout=st.sampled_from(["lm", "qwen2_vl"]), tied=st.booleans())
def test_every_tensor_of_every_model_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, layout: str, tied: bool
) -> None:
    root = tmp_path_factory.mktemp("accounts")
    blocks = [name for name in make_state() if ".layers." in name]
    some = st.sets(st.sampled_from(blocks), max_size=5)

    def without_some(state: State) -> None:
        for name in data.draw(some):
            del state[name]

    a = write_model(root / "a", layout=layout, change=without_some, tied=tied)
    b = write_model(root / "b", change=without_some, tied=data.draw(st.booleans()))
    scope = data.draw(st.sampled_from([None, ["model.layers.*"]]))
    plan = plan_of(a, b, missing="keep", scope=scope)
    mine, its = (set(Checkpoint(folder).entries) for folder in (a, b))
    assert {tensor.name for tensor in plan.written} == mine
    assert len(plan.written) == len(mine)
    read = {one.entry.name for t in plan.written for one in t.inputs if one.model == 1}
    dropped = set(by_name(plan, "drop"))
    passed_over = {t.name for t in plan.written if t.action == "keep"} & its
    assert read | dropped | passed_over == its
    assert not read & dropped


def test_parts_of_a_config_that_disagree_leave_it_to_the_files(tmp_path: Path) -> None:
    vlm = write_model(tmp_path / "vlm", layout="llava", config={"tie_word_embeddings": True})
    plan = plan_of(vlm, write_model(tmp_path / "lm"))
    assert "language_model.lm_head.weight" in by_name(plan)
    assert plan.config["tie_word_embeddings"] is True
    assert not any("taken as separate" in warning for warning in plan.warnings)
