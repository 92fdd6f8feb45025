"""Vocabularies that differ are joined as mergekit joins them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from mixlab.merge.mergekit_yaml import plan_mergekit
from mixlab.spec import MixlabError
from tests.merge.mergekit_yaml.conftest import Run
from tests.tiny_checkpoints import write_model

WORDS = {
    "a": ["<s>", "</s>", "a", "b", "c", "d", "e"],
    "b": ["</s>", "<s>", "c", "a", "x", "y", "d", "ü"],
    "c": ["<s>", "a", "y", "</s>", "z", "c"],
}


@pytest.fixture(scope="session")
def words(zoo: Path) -> Path:
    """Models wa, wb, wc and the tied wt (words of b), each with a tokenizer of its own."""
    for seed, name in enumerate(("wa", "wb", "wc", "wt")):
        listed = WORDS["b" if name == "wt" else name[1]]
        # One row more than tokens, as many models have.
        write_model(
            zoo / name,
            layers=2,
            width=16,
            vocab=len(listed) + (name == "wc"),
            tied=name == "wt",
            seed=seed,
        )
        _write_tokenizer(zoo / name, listed)
    return zoo


def _write_tokenizer(folder: Path, listed: list[str]) -> None:
    from tokenizers import AddedToken, Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE({word: at for at, word in enumerate(listed)}, []))
    inner.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)


HEAD = "{merge_method: linear, base_model: wa, models: [{model: wb}, {model: wa}, {model: wc}],"
FILES = {
    "union": HEAD + "parameters: {weight: 0.4}, tokenizer_source: union}",
    "base": HEAD + "parameters: {weight: [{filter: lm_head, value: 1}, {value: 2}]},"
    "tokenizer_source: base}",
    "a model": HEAD + "parameters: {weight: 0.3}, tokenizer_source: wb}",
    "no base, so means are taken": "{merge_method: linear, parameters: {weight: 0.3},"
    "models: [{model: wb}, {model: wt}, {model: wc}], tokenizer: {source: wa}}",
    "tokens by hand": HEAD
    + """parameters: {weight: 0.3}, tokenizer: {source: union, tokens: {
      x: {source: {kind: zero}},
      a: {source: wc, force: true},
      e: {source: {kind: model_token, model: wb, token: x}},
      <new>: {source: {kind: model_token, model: wa, token_id: 3}}}}}""",
    "padding": HEAD + "parameters: {weight: 1}, tokenizer: {source: union, pad_to_multiple_of: 8}}",
    "slices": "{merge_method: passthrough, tokenizer_source: union, base_model: wa, slices: ["
    "{sources: [{model: wa, layer_range: [0, 2]}]},"
    "{sources: [{model: wb, layer_range: [0, 1]}]}]}",
    "a tied model": "{merge_method: task_arithmetic, base_model: wa, tokenizer_source: union,"
    "models: [{model: wt, parameters: {weight: 0.7}}]}",
}


def _ids(folder: Path) -> dict[str, int]:
    data = json.loads((folder / "tokenizer.json").read_text())
    return {**data["model"]["vocab"], **{t["content"]: t["id"] for t in data["added_tokens"]}}


@pytest.mark.parametrize("kind", FILES)
def test_tables_follow_the_joined_vocabulary(
    kind: str, words: Path, theirs: Run, ours: Run, tmp_path: Path
) -> None:
    expected, about = theirs(FILES[kind])
    found, config = ours(FILES[kind])
    assert sorted(found) == sorted(expected)
    mine, its = _ids(tmp_path / "ours"), _ids(tmp_path / "theirs")
    assert sorted(mine) == sorted(its)
    for name, tensor in expected.items():
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            # mergekit numbers the tokens of a union in another order each time.
            tensor[[mine[word] for word in its]] = tensor[[its[word] for word in its]]
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)
    assert config["vocab_size"] == about["vocab_size"]
    assert len(found["model.embed_tokens.weight"]) == config["vocab_size"]


def test_the_joined_tokenizer_is_among_the_side_files(words: Path, in_zoo: Path) -> None:
    text = {
        "merge_method": "linear",
        "models": [{"model": "wa"}, {"model": "wb"}],
        "parameters": {"weight": 1},
        "tokenizer_source": "union",
        "chat_template": "chatml",
    }
    with plan_mergekit(text) as (stage,):
        files = stage.plan.side_files
        ids = _ids(files["tokenizer.json"].parent)
        # The first model's tokens keep their rows; then the other's, in its order.
        assert sorted(ids, key=ids.__getitem__) == [*WORDS["a"], "x", "y", "ü"]
        assert stage.plan.config["vocab_size"] == len(ids)
        assert "<|im_start|>" in files["chat_template.jinja"].read_text()
        folder = files["tokenizer.json"].parent
    assert not folder.exists()


def test_token_ids_of_the_config_follow_the_vocabulary(words: Path, in_zoo: Path) -> None:
    ids = {"eos_token_id": [1, 0], "text_config": {"bos_token_id": 0}, "vocab_size": 7}
    (words / "wa" / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    config = json.loads((words / "wa" / "config.json").read_text())
    (words / "wa" / "config.json").write_text(json.dumps({**config, **ids}))
    text = {
        "merge_method": "linear",
        "models": [{"model": "wa"}, {"model": "wb"}],
        "parameters": {"weight": 1},
        "tokenizer_source": "wb",
    }
    try:
        with plan_mergekit(text) as (stage,):
            # In wa <s> is 0 and </s> 1, in wb the other way round.
            assert stage.plan.config["eos_token_id"] == [0, 1]
            assert stage.plan.config["text_config"]["bos_token_id"] == 1
            generation = stage.plan.side_files["generation_config.json"].read_text()
            assert json.loads(generation) == {"eos_token_id": 0}
    finally:
        (words / "wa" / "config.json").write_text(json.dumps(config))
        (words / "wa" / "generation_config.json").unlink()


def test_a_template_replaces_those_of_the_target(words: Path, in_zoo: Path, tmp_path: Path) -> None:
    shutil.copytree("wa", tmp_path / "m")
    config = tmp_path / "m" / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": "{{ old }}"}))
    text = {"merge_method": "passthrough", "models": [{"model": str(tmp_path / "m")}]}
    with plan_mergekit({**text, "chat_template": "{{ new }}"}) as (stage,):
        assert stage.plan.side_files["chat_template.jinja"].read_text() == "{{ new }}"
        said = json.loads(stage.plan.side_files["tokenizer_config.json"].read_text())
        assert "chat_template" not in said
        assert said["tokenizer_class"] == json.loads(config.read_text())["tokenizer_class"]
    with plan_mergekit({**text, "chat_template": "auto"}) as (stage,):
        assert stage.plan.side_files["chat_template.jinja"].read_text() == "{{ old }}"
    with (
        pytest.raises(MixlabError, match="did you mean 'chatml'"),
        plan_mergekit({**text, "chat_template": "chatlm"}),
    ):
        pass


def test_tables_of_other_sizes_are_refused_without_a_tokenizer(words: Path, in_zoo: Path) -> None:
    text = {
        "merge_method": "linear",
        "models": [{"model": "wa"}, {"model": "wb"}],
        "parameters": {"weight": 1},
    }
    told = r"embed_tokens.weight: \[7, 16\] in wa, \[8, 16\] in wb(.|\n)*tokenizer:"
    with pytest.raises(MixlabError, match=told), plan_mergekit(text):
        pass
