"""Inputs of other kinds: adapters, tied heads, vision-language models, paths with + and @."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mixlab.checkpoint import read_state
from mixlab.merge import merge_checkpoints
from mixlab.merge.mergekit_yaml import plan_mergekit
from mixlab.spec import MixlabError
from tests.merge.mergekit_yaml.conftest import Run, carry_out
from tests.tiny_checkpoints import write_model


@pytest.fixture(scope="module")
def adapter(zoo: Path) -> Path:
    """A LoRA adapter for models of the zoo, in a folder `lora`."""
    torch.manual_seed(5)
    tensors = {}
    for layer in range(4):
        for module, out, inner in (("self_attn.q_proj", 16, 16), ("mlp.down_proj", 16, 32)):
            key = f"base_model.model.model.layers.{layer}.{module}"
            tensors[f"{key}.lora_A.weight"] = torch.randn(2, inner)
            tensors[f"{key}.lora_B.weight"] = torch.randn(out, 2)
    (zoo / "lora").mkdir()
    save_file(tensors, zoo / "lora" / "adapter_model.safetensors")
    about = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 5,
        "target_modules": ["q_proj", "down_proj"],
    }  # fmt: skip
    (zoo / "lora" / "adapter_config.json").write_text(json.dumps(about))
    return zoo / "lora"


LORA = """
merge_method: task_arithmetic
base_model: a
models: [{model: a+lora, parameters: {weight: 0.7}}, {model: b, parameters: {weight: 0.2}}]
"""


def test_an_adapter_is_applied_while_its_base_is_read(
    adapter: Path, theirs: Run, ours: Run
) -> None:
    expected, _ = theirs(LORA)
    found, _ = ours(LORA)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-5)


def test_the_whole_engine_takes_an_adapter_and_odd_paths(
    adapter: Path, ours: Run, in_zoo: Path, tmp_path: Path
) -> None:
    shutil.copytree("a", tmp_path / "a+1@x")
    expected, _ = ours(LORA)
    text = LORA.replace("model: a+", f"model: {tmp_path / 'a+1@x'}+")
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    merge_checkpoints(file, tmp_path / "out")
    found = read_state(tmp_path / "out")
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-5)


def test_an_adapter_that_is_not_finite_is_named_and_not_its_base(
    adapter: Path, in_zoo: Path, tmp_path: Path
) -> None:
    spoilt = shutil.copytree(adapter, tmp_path / "spoilt")
    factors = load_file(spoilt / "adapter_model.safetensors")
    factors[max(factors)].fill_(float("nan"))
    save_file(factors, spoilt / "adapter_model.safetensors")
    file = tmp_path / "spoilt.yaml"
    file.write_text(LORA.replace("a+lora", f"a+{spoilt}"))
    with pytest.raises(MixlabError, match=f"a with the adapter {spoilt}: tensor .* gets NaN"):
        merge_checkpoints(file, tmp_path / "out")


def _mixed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return 0.25 * a + 0.75 * b


@pytest.mark.parametrize("layout", ["llava", "qwen2_vl", "qwen3_vl"])
def test_an_lm_is_mixed_into_a_vlm_which_keeps_its_vision(
    layout: str, in_zoo: Path, tmp_path: Path
) -> None:
    vlm = write_model(tmp_path / "vlm", layers=4, width=16, layout=layout, seed=20)
    text = {
        "merge_method": "linear",
        "models": [
            {"model": str(vlm), "parameters": {"weight": 0.25}},
            {"model": "a", "parameters": {"weight": 0.75}},
        ],
    }
    with plan_mergekit(text) as (stage,):
        found = carry_out(stage.plan)
        kept = {t.name: t.because for t in stage.plan.tensors if t.action == "keep"}
        assert stage.plan.config["text_config"]["num_hidden_layers"] == 4
    mine, other = read_state(vlm), read_state(Path("a"))
    assert set(found) == set(mine)
    assert len(kept) == len(mine) - len(other)
    assert all("only in" in because for because in kept.values())
    tails = {name.removeprefix("model."): name for name in other}
    for name, tensor in found.items():
        if name in kept:
            assert torch.equal(tensor, mine[name])
        else:
            tail = next(own for t, own in tails.items() if name.endswith(t))
            torch.testing.assert_close(tensor, _mixed(mine[name], other[tail]))


def test_vision_of_a_model_that_is_not_the_target_is_dropped_and_told(
    in_zoo: Path, tmp_path: Path
) -> None:
    vlm = write_model(tmp_path / "vlm", layers=4, width=16, layout="llava", seed=20)
    text = {
        "merge_method": "linear",
        "models": [{"model": "a"}, {"model": str(vlm)}],
        "parameters": {"weight": 1},
    }
    with plan_mergekit(text) as (stage,):
        assert stage.plan.counts() == {"mix": 39, "drop": 3}
        told = [told for told in stage.plan.warnings if "no place in the output" in told]
        assert sorted(told) == [
            f"1 tensors of {vlm} under multi_modal_projector have no place in the output",
            f"2 tensors of {vlm} under vision_tower have no place in the output",
        ]


def test_a_gradient_runs_over_each_tower_of_its_own(in_zoo: Path, tmp_path: Path) -> None:
    for seed, name in enumerate(("v", "w")):
        folder = write_model(tmp_path / name, layers=2, layout="llava", seed=seed)
        state = read_state(folder)
        state |= {f"vision_tower.blocks.{i}.mlp.fc1.weight": torch.zeros(2) for i in range(3)}
        state |= {f"vision_tower.merger.mlp.{i}.fc1.weight": torch.zeros(2) for i in range(2)}
        save_file(state, folder / "model.safetensors")
    text = {
        "merge_method": "linear",
        "models": [{"model": str(tmp_path / "v")}, {"model": str(tmp_path / "w")}],
        "parameters": {"weight": [0.2, 0.8]},
    }
    with plan_mergekit(text) as (stage,):
        weights = {
            t.name: round(t.settings["weight"][0], 6) for t in stage.plan.tensors if "fc1" in t.name
        }
    assert weights == {
        **{f"vision_tower.blocks.{i}.mlp.fc1.weight": 0.2 + 0.3 * i for i in range(3)},
        **{f"vision_tower.merger.mlp.{i}.fc1.weight": 0.2 for i in range(2)},
    }


def test_a_tied_model_gives_its_embeddings_for_the_head_and_is_told(in_zoo: Path) -> None:
    text = {
        "merge_method": "linear",
        "models": [{"model": "tied"}, {"model": "a"}],
        "parameters": {"weight": 1},
    }
    with plan_mergekit(text) as (stage,):
        assert stage.plan.config["tie_word_embeddings"] is False
        assert any("ties lm_head" in told for told in stage.plan.warnings)
    text["models"] = [{"model": "tied"}]
    with plan_mergekit(text) as (stage,):
        assert stage.plan.config["tie_word_embeddings"] is True
        assert "lm_head.weight" not in {t.name for t in stage.plan.written}


def test_a_stored_copy_of_a_tied_head_is_dropped(in_zoo: Path, tmp_path: Path) -> None:
    def copy(state: dict[str, torch.Tensor]) -> None:
        state["lm_head.weight"] = state["model.embed_tokens.weight"].clone()

    folder = write_model(tmp_path / "m", layers=4, width=16, tied=True, change=copy)
    text = {"merge_method": "passthrough", "models": [{"model": str(folder)}]}
    with plan_mergekit(text) as (stage,):
        (dropped,) = [t for t in stage.plan.tensors if t.action == "drop"]
        assert (dropped.name, dropped.because) == ("lm_head.weight", "tied to the embeddings")


def test_a_tensor_that_one_model_lacks_is_refused(in_zoo: Path, tmp_path: Path) -> None:
    def lose(state: dict[str, torch.Tensor]) -> None:
        del state["model.layers.2.self_attn.k_proj.weight"]

    folder = write_model(tmp_path / "m", layers=4, width=16, change=lose)
    text = {
        "merge_method": "linear",
        "models": [{"model": "a"}, {"model": str(folder)}],
        "parameters": {"weight": 1},
    }
    told = r"m lacks model\.layers\.2\.self_attn\.k_proj\.weight, which a has"
    with pytest.raises(MixlabError, match=told), plan_mergekit(text):
        pass


def test_buffers_are_kept_and_other_integers_must_agree(in_zoo: Path, tmp_path: Path) -> None:
    def make(name: str, value: int) -> str:
        def add(state: dict[str, torch.Tensor]) -> None:
            state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4) * value
            state["model.layers.0.self_attn.steps"] = torch.tensor([value // 2])

        return str(write_model(tmp_path / name, layers=4, width=16, change=add, seed=value))

    one, two, three = make("x", 2), make("y", 3), make("z", 4)
    text = {
        "merge_method": "linear",
        "models": [{"model": one}, {"model": two}],
        "parameters": {"weight": 5, "normalize": False},
    }
    with plan_mergekit(text) as (stage,):
        found = carry_out(stage.plan)
    assert found["model.layers.0.self_attn.rotary_emb.inv_freq"].tolist() == [2] * 4
    assert found["model.layers.0.self_attn.steps"].tolist() == [1]
    text["models"] = [{"model": one}, {"model": three}]
    told = "steps: I64 values differ between .*x and .*z and cannot be averaged"
    with pytest.raises(MixlabError, match=told), plan_mergekit(text):
        pass


def test_weights_that_sum_to_nothing_are_refused_before_the_merge(in_zoo: Path) -> None:
    text = {
        "merge_method": "linear",
        "models": [
            {"model": "a", "parameters": {"weight": 1}},
            {"model": "b", "parameters": {"weight": -1}},
        ],
    }
    with pytest.raises(MixlabError, match="sum to 0"), plan_mergekit(text):
        pass


def test_antiparallel_tensors_are_interpolated_on_the_line_as_in_mergekit(
    theirs: Run, ours: Run, in_zoo: Path, tmp_path: Path
) -> None:
    def turn(state: dict[str, torch.Tensor]) -> None:
        state["model.norm.weight"] = -2 * state["model.norm.weight"]

    turned = write_model(tmp_path / "m", layers=4, width=16, change=turn)
    text = f"{{merge_method: slerp, base_model: a, models: [{{model: {turned}}}], parameters: "
    expected, _ = theirs(text + "{t: 0.25}}")
    found, _ = ours(text + "{t: 0.25}}")
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)
    with pytest.raises(MixlabError, match="opposite directions"):
        ours(text + "{t: 0.25, antiparallel: error}}")


def test_kinds_of_layers_follow_the_slices(in_zoo: Path, tmp_path: Path) -> None:
    kinds = {"layer_types": ["sliding", "full", "sliding", "full"]}
    one = str(write_model(tmp_path / "x", layers=4, width=16, config=kinds))
    two = str(write_model(tmp_path / "y", layers=4, width=16, config=kinds, seed=1))

    def part(*sources: tuple[str, int, int]) -> dict[str, object]:
        return {"sources": [{"model": m, "layer_range": [a, b]} for m, a, b in sources]}

    text = {
        "merge_method": "linear",
        "parameters": {"weight": 1},
        "slices": [part((one, 0, 3), (two, 0, 3)), part((two, 1, 4)), part((two, 3, 4))],
    }
    with plan_mergekit(text) as (stage,):
        types = ["sliding", "full", "sliding", "full", "sliding", "full", "full"]
        assert stage.plan.config["layer_types"] == types
        assert not any("layer_types" in told for told in stage.plan.warnings)
    text["slices"] = [part((one, 0, 3), (two, 1, 4))]
    with plan_mergekit(text) as (stage,):
        assert any("layer_types differ" in told for told in stage.plan.warnings)


def test_rows_of_different_tokens_are_told(in_zoo: Path, tmp_path: Path) -> None:
    for name, words in (("x", "ab"), ("y", "ba")):
        ids = {word: row for row, word in enumerate(words)}
        write_model(tmp_path / name, vocab=2, tokenizer=ids)
    text = {
        "merge_method": "linear",
        "models": [{"model": str(tmp_path / "x")}, {"model": str(tmp_path / "y")}],
        "parameters": {"weight": 1},
    }
    with plan_mergekit(text) as (stage,):
        assert any("rows of different tokens" in told for told in stage.plan.warnings)


def test_all_sources_of_the_last_slice_count_outside_the_blocks(ours: Run, in_zoo: Path) -> None:
    # mergekit looks at as many of them as the first slice has, and mixes the others into no norm.
    found, _ = ours("""
merge_method: linear
slices:
  - sources: [{model: a, layer_range: [0, 2]}]
  - sources: [{model: a, layer_range: [2, 4]}, {model: b, layer_range: [2, 4]}]
parameters: {weight: 1}
""")
    a, b = read_state(Path("a")), read_state(Path("b"))
    for name in ("lm_head.weight", "model.norm.weight"):
        torch.testing.assert_close(found[name], (a[name] + b[name]) / 2)
    assert torch.equal(found["model.embed_tokens.weight"], a["model.embed_tokens.weight"])
