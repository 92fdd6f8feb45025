import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlab.merge.planning._config import check_token_ids, config_text, output_config
from mixlab.spec import MixlabError

LM = {
    "architectures": ["Qwen2ForCausalLM"],
    "torch_dtype": "float16",
    "num_hidden_layers": 4,
    "vocab_size": 10,
    "tie_word_embeddings": True,
    "layer_types": ["full", "sliding", "full", "sliding"],
    "eos_token_id": [3, 9],
    "pad_token_id": None,
    "auto_map": {"AutoModel": "modeling_x.X"},
}
VLM = {
    "dtype": "bfloat16",
    "text_config": {"dtype": "bfloat16", "num_hidden_layers": 4, "layer_types": list("abcd")},
    "vision_config": {"torch_dtype": "bfloat16", "num_hidden_layers": 4, "vocab_size": 3},
    "quantization_config": {"torch_dtype": "uint8"},
    "image_token_id": 12,
    "vocab_size": 13,
}


@given(st.sampled_from([LM, VLM, {}]))
def test_nothing_asked_nothing_changed_and_the_input_never(config):
    before = copy.deepcopy(config)
    assert output_config(config) == config
    changed = output_config(config, dtype="float32", tied=False, vocab_size=5, layers=2)
    changed.setdefault("text_config", {})["new"] = 1
    assert config == before


def test_the_dtype_goes_under_the_key_that_the_input_used():
    assert output_config(LM, dtype="BF16") == {**LM, "torch_dtype": "bfloat16"}
    assert output_config({}, dtype="bfloat16") == {"dtype": "bfloat16"}
    both = {"dtype": "float16", "torch_dtype": "float16"}
    assert output_config(both, dtype="F32") == {"dtype": "float32", "torch_dtype": "float32"}
    assert output_config({"torch_dtype": None}, dtype="F32") == {"torch_dtype": "float32"}
    out = output_config(VLM, dtype="float16")
    assert out["dtype"] == out["text_config"]["dtype"] == "float16"
    assert out["vision_config"]["torch_dtype"] == "float16"
    assert out["quantization_config"] == VLM["quantization_config"]
    with pytest.raises(MixlabError, match="unknown dtype 'half-ish'"):
        output_config(LM, dtype="half-ish")


def test_tied_stands_at_the_top_and_in_the_language_models_part():
    assert output_config(LM, tied=False)["tie_word_embeddings"] is False
    out = output_config(VLM, tied=True)
    assert out["tie_word_embeddings"] is out["text_config"]["tie_word_embeddings"] is True
    assert "tie_word_embeddings" not in out["vision_config"]


def test_the_vocabulary_is_that_of_the_language_model():
    assert output_config(LM, vocab_size=12)["vocab_size"] == 12
    out = output_config(VLM, vocab_size=20)
    assert (out["vocab_size"], out["text_config"]["vocab_size"]) == (20, 20)
    assert out["vision_config"]["vocab_size"] == 3
    nested = {"thinker_config": {"text_config": {"vocab_size": 3}}}
    assert output_config(nested, vocab_size=4) == {
        "thinker_config": {"text_config": {"vocab_size": 4}}
    }
    padded = output_config({"padded_vocab_size": 3}, vocab_size=4)
    assert padded == {"padded_vocab_size": 4, "vocab_size": 4}


def test_depth_and_lists_by_layer_follow_the_blocks():
    out = output_config(LM, layers=2)
    assert (out["num_hidden_layers"], out["layer_types"]) == (2, ["full", "sliding"])
    out = output_config(LM, layers=[0, 1, 1, 3, 2])
    assert out["num_hidden_layers"] == 5
    assert out["layer_types"] == ["full", "sliding", "sliding", "sliding", "full"]
    out = output_config(VLM, layers=[3])
    assert (out["text_config"]["num_hidden_layers"], out["text_config"]["layer_types"]) == (
        1,
        ["d"],
    )
    assert out["vision_config"]["num_hidden_layers"] == 4
    assert "num_hidden_layers" not in out
    assert output_config({"n_layer": 12}, layers=6) == {"n_layer": 6}
    assert output_config({"n_layers": 12}, layers=14) == {"n_layers": 14}
    assert output_config({}, layers=6) == {"num_hidden_layers": 6}


def test_lists_of_layer_numbers_are_renumbered():
    config = {"num_hidden_layers": 4, "mlp_only_layers": [1, 3], "moe_layers": [0, 1, 2, 3]}
    out = output_config(config, layers=[3, 0, 3])
    assert out == {"num_hidden_layers": 3, "mlp_only_layers": [0, 2], "moe_layers": [0, 1, 2]}


def test_more_layers_than_the_lists_know_need_an_order():
    with pytest.raises(MixlabError, match="layer_types has 4 values for 6 layers"):
        output_config(LM, layers=6)
    with pytest.raises(MixlabError, match="the source has blocks 0 to 3"):
        output_config(LM, layers=[0, 4])


def test_token_ids_beyond_the_vocabulary_are_named():
    assert check_token_ids(LM) == ()
    small = output_config(LM, vocab_size=9)
    assert check_token_ids(small) == (
        "config.json: eos_token_id 9 lies beyond the vocabulary of 9 rows",
    )
    assert check_token_ids(VLM) == ()
    assert "image_token_id 12" in check_token_ids(output_config(VLM, vocab_size=12))[0]
    assert check_token_ids({"eos_token_id": 5}) == ()


def test_infinity_survives_in_the_text():
    config = {"time_step_limit": [0.0, float("inf")], "name": "ü"}
    assert json.loads(config_text(config)) == config


def test_transformers_reads_what_was_changed():
    transformers = pytest.importorskip("transformers")
    made = transformers.Qwen2Config(num_hidden_layers=4, vocab_size=16).to_dict()
    out = output_config(made, dtype="F16", tied=True, vocab_size=20, layers=[0, 1, 2, 3, 3])
    read = transformers.Qwen2Config.from_dict(json.loads(config_text(out)))
    assert (read.num_hidden_layers, len(read.layer_types), read.vocab_size) == (5, 5, 20)
    assert read.tie_word_embeddings
    assert str(read.dtype) == "torch.float16"
