from functools import cache

import pytest
import transformers as hf
from accelerate import init_empty_weights
from tiny_vlms import CASES, FAMILIES, GENERIC

from mixlab.checkpoint import match_names, tensor_place
from mixlab.spec import MixlabError

ALL = {**FAMILIES, **GENERIC}
RENAMED = [
    (name, tied)
    for name, tied in [*CASES, *((name, False) for name in GENERIC)]
    if ALL[name].natural is not None and ALL[name].convert is None
]
LMS = {
    "llama": lambda **a: hf.LlamaForCausalLM(hf.LlamaConfig(**a)),
    "qwen2": lambda **a: hf.Qwen2ForCausalLM(hf.Qwen2Config(**a)),
}
TEXT = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


@cache
def shapes_of_lm(family: str, tied: bool, layers: int = 2) -> dict:
    with init_empty_weights():
        lm = LMS[family](**TEXT, num_hidden_layers=layers, tie_word_embeddings=tied)
    return {name: tuple(t.shape) for name, t in lm.state_dict().items()}


@cache
def shapes_of_smolvlm() -> dict:
    text = {**TEXT, "model_type": "llama", "num_hidden_layers": 2}
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    config = hf.SmolVLMConfig(
        text_config=text,
        vision_config={**vision, "num_attention_heads": 2, "image_size": 32, "patch_size": 8},
    )
    with init_empty_weights():
        vlm = hf.SmolVLMForConditionalGeneration(config)
    return {name: tuple(t.shape) for name, t in vlm.state_dict().items()}


@pytest.mark.parametrize(("name", "tied"), RENAMED)
def test_every_tensor_of_the_lm_is_found_in_its_vlm(name, tied):
    target, source = ALL[name].shapes(tied)
    oracle = {mine: ALL[name].natural_name(mine) for mine in target}
    pairs = match_names(target, source)
    assert pairs == {mine: its for mine, its in oracle.items() if its is not None}
    assert set(pairs.values()) == set(source)
    assert all(tensor_place(a).module == tensor_place(b).module for a, b in pairs.items())
    assert all(tensor_place(a).layer == tensor_place(b).layer for a, b in pairs.items())
    rest = set(target) - set(pairs)
    assert rest
    assert {tensor_place(name).module for name in rest} == {"other"}


@pytest.mark.parametrize("prefix", ["language_model.", "llm.", "thinker."])
def test_a_wrapped_lm_takes_its_head_along(prefix):
    source = shapes_of_lm("llama", False)
    target = {prefix + name: shape for name, shape in source.items()}
    target["vision_tower.encoder.layers.0.mlp.up_proj.weight"] = (64, 32)
    assert match_names(target, source) == {prefix + name: name for name in source}


def test_equal_names_are_the_answer_even_beside_a_second_place():
    source = shapes_of_lm("llama", True)
    target = {**source, **{f"draft.{name}": shape for name, shape in source.items()}}
    assert match_names(target, source) == {name: name for name in source}


def test_more_rows_in_the_target_are_allowed_and_fewer_refused():
    source = shapes_of_lm("llama", False)
    longer = {n: (107, 32) if s == (100, 32) else s for n, s in source.items()}
    assert set(match_names(longer, source)) == set(source)
    with pytest.raises(MixlabError, match=r"lm_head.weight: \[100, 32\] in .*, \[107, 32\]"):
        match_names(source, longer)


def test_a_tied_head_may_be_missing_on_either_side():
    untied = shapes_of_lm("llama", False)
    stored = {n: s for n, s in untied.items() if n != "lm_head.weight"}
    assert "lm_head.weight" not in match_names(stored, untied)
    pairs = match_names(untied, stored)
    assert pairs["lm_head.weight"] == "model.embed_tokens.weight"
    # A decoder saved alone has no head that could be tied.
    alone = {n.removeprefix("model."): s for n, s in stored.items()}
    assert "lm_head.weight" not in match_names(untied, alone)
    assert len(match_names(untied, alone)) == len(alone)


def test_another_depth_and_another_architecture_are_refused_with_the_candidates():
    target = shapes_of_smolvlm()
    with pytest.raises(MixlabError, match="2 blocks for 1") as error:
        match_names(target, shapes_of_lm("llama", False, layers=1))
    assert "model.text_model." in str(error.value)
    assert "names: {" in str(error.value)
    with pytest.raises(MixlabError, match="nowhere as a whole"):
        match_names(target, shapes_of_lm("qwen2", False))
    with pytest.raises(MixlabError, match="no prefix at all"):
        match_names({"a.weight": (2, 2)}, shapes_of_lm("llama", False))


def test_two_places_that_fit_are_ambiguous_until_named():
    source = shapes_of_lm("llama", False)
    target = {p + n: s for p in ("a.", "b.") for n, s in source.items()}
    with pytest.raises(MixlabError, match="in several places") as error:
        match_names(target, source)
    assert "a.model." in str(error.value)
    assert "b.model." in str(error.value)
    assert match_names(target, source, {"": "b."}) == {f"b.{n}": n for n in source}


def test_given_prefixes_are_held_against_the_names():
    target, source = shapes_of_smolvlm(), shapes_of_lm("llama", False)
    assert match_names(target, source, {"model.": "model.text_model."}) == match_names(
        target, source
    )
    with pytest.raises(MixlabError, match=r"the target has no model\.txt\.layers\.0"):
        match_names(target, source, {"model.": "model.txt."})
    with pytest.raises(MixlabError, match=r"begins with \['modle.'\]"):
        match_names(target, source, {"modle.": "model.text_model."})


def test_stored_buffers_are_no_evidence():
    target = shapes_of_smolvlm()
    source = dict(shapes_of_lm("llama", False))
    expected = match_names(target, source)
    source["model.layers.0.self_attn.rotary_emb.inv_freq"] = (4,)
    assert match_names(target, source) == expected


def test_blocks_of_another_kind_between_shift_the_layers():
    source = shapes_of_lm("llama", False)
    cross = {"cross_attn.q_proj.weight": (32, 32), "mlp.up_proj.weight": (64, 32)}
    target = {}
    for name, shape in source.items():
        target["language_model." + name.replace("layers.1.", "layers.2.")] = shape
    for leaf, shape in cross.items():
        target[f"language_model.model.layers.1.{leaf}"] = shape
    pairs = match_names(target, source)
    assert len(pairs) == len(source)
    assert pairs["language_model.model.layers.2.mlp.up_proj.weight"] == (
        "model.layers.1.mlp.up_proj.weight"
    )
    assert "language_model.model.layers.1.mlp.up_proj.weight" not in pairs


def test_another_tower_of_the_same_shape_is_no_rival():
    source = shapes_of_lm("llama", False)
    target = {p + n: s for p in ("thinker.", "talker.") for n, s in source.items()}
    assert match_names(target, source) == {f"thinker.{n}": n for n in source}
