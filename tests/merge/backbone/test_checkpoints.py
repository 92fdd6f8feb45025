"""Extraction and splice of folders: what stands in them, what is refused, nothing half-written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_vlms import FAMILIES, write_reference, write_vlm
from typer.testing import CliRunner

from merge.merging import same, state_of
from mixlab.cli import app
from mixlab.merge import (
    VerifyError,
    extract_checkpoint,
    preview_backbone,
    splice_checkpoint,
    verify_merge,
)
from mixlab.spec import MixlabError

LLAVA = FAMILIES["llava"]


@pytest.fixture(scope="module")
def vlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_vlm(tmp_path_factory.mktemp("v") / "my-vlm", LLAVA, "hub", 2)
    (folder / "preprocessor_config.json").write_text("{}")
    (folder / "generation_config.json").write_text('{"temperature": 0.5}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


@pytest.fixture
def lm(vlm: Path, tmp_path: Path) -> Path:
    return extract_checkpoint(vlm, tmp_path / "lm").out


def change(folder: Path, edit: dict[str, object] | None = None, **tensors: torch.Tensor) -> Path:
    """Other tensors (dots as __) or config values, in a folder of one file."""
    state = load_file(folder / "model.safetensors")
    state |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text()) | (edit or {})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_language_model_has_all_that_a_text_model_needs(lm: Path) -> None:
    assert (lm / "tokenizer.json").is_file()
    assert json.loads((lm / "generation_config.json").read_text()) == {"temperature": 0.5}
    assert (lm / "chat_template.jinja").read_text() == "{{ messages }}"
    assert not (lm / "preprocessor_config.json").exists()
    config = json.loads((lm / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "vision_config" not in config
    card = (lm / "README.md").read_text()
    assert "# Language model of my-vlm" in card
    assert str(lm.parent) not in card
    assert (lm / "mixlab_merge.json").is_file()


def test_the_shell(vlm: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "lm", tmp_path / "again"
    dry = CliRunner().invoke(app, ["backbone", "extract", str(vlm), str(out), "--dry-run"])
    assert "model.layers.{0-1}.mlp.up_proj.weight" in dry.output, dry.output
    assert not out.exists()
    result = CliRunner().invoke(app, ["backbone", "extract", str(vlm), str(out), "--verify"])
    assert result.exit_code == 0, result.output
    assert "LlamaForCausalLM loads it: no missing and no unexpected key" in result.output
    line = ["backbone", "splice", str(vlm), str(out), str(again)]
    assert "dropped" not in CliRunner().invoke(app, [*line, "--dry-run"]).output
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert same(state_of(again), state_of(vlm))
    assert "my-vlm with the language model of lm" in (again / "README.md").read_text()


def test_a_finished_one_is_verified_by_its_marker(vlm: Path, lm: Path, tmp_path: Path) -> None:
    verify_merge(lm, sample="all")
    out = splice_checkpoint(vlm, lm, tmp_path / "s").out
    verify_merge(out, sample="all")
    moved = lm.rename(tmp_path / "elsewhere")
    with pytest.raises(MixlabError, match="inputs are not where they were"):
        verify_merge(out)
    verify_merge(out, models={str(lm): moved}, sample="all")
    state = load_file(moved / "model.safetensors")
    change(moved, model__norm__weight=state["model.norm.weight"] + 1)
    with pytest.raises(VerifyError, match="differ"):
        verify_merge(out, models={str(lm): moved}, sample="all")


def test_a_tuned_language_model_goes_back_and_nothing_else_moves(
    vlm: Path, lm: Path, tmp_path: Path
) -> None:
    state = load_file(lm / "model.safetensors")
    tuned = state["model.layers.1.mlp.up_proj.weight"] + 1
    change(lm, model__layers__1__mlp__up_proj__weight=tuned)
    before = state_of(vlm)
    after = state_of(splice_checkpoint(vlm, lm, tmp_path / "s").out)
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved == ["language_model.model.layers.1.mlp.up_proj.weight"]
    assert torch.equal(after[moved[0]], tuned)


def test_a_language_model_with_fewer_rows_leaves_the_vlm_its_own(
    vlm: Path, lm: Path, tmp_path: Path
) -> None:
    state = load_file(lm / "model.safetensors")
    tables = {
        name.replace(".", "__"): (state[name][:96] + 1).contiguous()
        for name in ("model.embed_tokens.weight", "lm_head.weight")
    }
    change(lm, {"vocab_size": 96}, **tables)
    before = state_of(vlm)
    after = state_of(splice_checkpoint(vlm, lm, tmp_path / "s", check="all").out)
    for name in ("language_model.model.embed_tokens.weight", "language_model.lm_head.weight"):
        assert torch.equal(after[name][:96], before[name][:96] + 1)
        assert torch.equal(after[name][96:], before[name][96:])


def test_another_precision_is_rounded_to_the_vlm_s(vlm: Path, lm: Path, tmp_path: Path) -> None:
    state = load_file(lm / "model.safetensors")
    halves = {name.replace(".", "__"): tensor.bfloat16() for name, tensor in state.items()}
    halves["model__embed_tokens__weight"] = halves["model__embed_tokens__weight"][:90].contiguous()
    halves["lm_head__weight"] = halves["lm_head__weight"][:90].contiguous()
    change(lm, {"dtype": "bfloat16", "vocab_size": 90}, **halves)
    after = state_of(splice_checkpoint(vlm, lm, tmp_path / "s", check="all").out)
    before = state_of(vlm)
    head = "language_model.lm_head.weight"
    assert torch.equal(after[head][:90], before[head][:90].bfloat16().float())
    assert torch.equal(after[head][90:], before[head][90:])
    norm = "language_model.model.norm.weight"
    assert torch.equal(after[norm], before[norm].bfloat16().float())


def test_a_language_model_is_no_vlm(lm: Path, tmp_path: Path) -> None:
    with pytest.raises(MixlabError, match="is a language model already"):
        extract_checkpoint(lm, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_all_that_does_not_fit_is_told_at_once(vlm: Path, tmp_path: Path) -> None:
    family = FAMILIES["llava"]
    other = family.make()
    config = family.reference(other).config
    config.intermediate_size, config.num_hidden_layers, config.hidden_act = 40, 3, "gelu"
    from tiny_vlms import build, write_model

    lm = write_model(tmp_path / "lm", build(type(family.reference(other)), config, 0))
    with pytest.raises(MixlabError) as caught:
        splice_checkpoint(vlm, lm, tmp_path / "out")
    for told in ("intermediate_size: 48", "num_hidden_layers: 2", "hidden_act: 'silu'", "'gelu'"):
        assert told in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_more_rows_than_the_vlm_has_are_refused(vlm: Path, lm: Path, tmp_path: Path) -> None:
    state = load_file(lm / "model.safetensors")
    tables = {
        name.replace(".", "__"): torch.cat([state[name], state[name][:4]])
        for name in ("model.embed_tokens.weight", "lm_head.weight")
    }
    change(lm, {"vocab_size": 104}, **tables)
    with pytest.raises(MixlabError, match=r"\[100, 32\] in .*my-vlm, \[104, 32\]"):
        splice_checkpoint(vlm, lm, tmp_path / "out")


def test_tokens_in_another_order_are_refused(vlm: Path, tmp_path: Path) -> None:
    from tiny_vlms import words

    lm = write_reference(tmp_path / "lm", LLAVA, tokenizer=words(shuffled=1))
    with pytest.raises(MixlabError, match="--alpha 0 pairs rows by token"):
        splice_checkpoint(vlm, lm, tmp_path / "out")


def test_a_part_of_the_language_model_that_is_missing_is_named(vlm: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(vlm, tmp_path / "broken")
    state, lost = state_of(vlm), "language_model.model.layers.1.self_attn.k_proj.weight"
    for file in [*broken.glob("*.safetensors"), broken / "model.safetensors.index.json"]:
        file.unlink()
    del state[lost]
    save_file(state, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(MixlabError, match=r"layers\.1\.self_attn\.k_proj\.weight"):
        extract_checkpoint(broken, tmp_path / "out")


def test_a_preview_refuses_what_the_run_would(vlm: Path) -> None:
    with pytest.raises(MixlabError, match="is an input of this merge"):
        preview_backbone(vlm, vlm)
