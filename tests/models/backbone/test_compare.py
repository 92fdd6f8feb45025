"""What changes the function is compared, all at once, sizes apart from functions."""

import pytest
import transformers as hf
from tiny_vlms import FAMILIES, GENERIC

from mixlab.models import compare_configs

ALL = {**FAMILIES, **GENERIC}
NATURAL = [name for name, family in ALL.items() if family.natural is not None]


def kinds(vlm, lm):
    found = compare_configs(vlm, lm)
    return (
        {d.field for d in found if d.kind == "size"},
        {d.field for d in found if d.kind == "function"},
    )


@pytest.mark.parametrize("name", NATURAL)
def test_natural_reference_has_the_sizes_and_all_but_the_positions(name):
    family = ALL[name]
    config = family.config(False)
    sizes, functions = kinds(config, family.natural_config(config))
    assert not sizes
    # What the VLM's class leaves out of the logits is said too.
    left_out = {"aya-vision": "logit_scale", "cohere2_vision": "logit_scale",
                "gemma3-capped": "final_logit_softcapping"}  # fmt: skip
    assert functions - {"mrope"} == ({left_out[name]} if name in left_out else set())
    # M-RoPE is in the VLM alone, and is said.
    rope = getattr(config.get_text_config(), "rope_parameters", None) or {}
    own = family.natural_config(config).model_type == config.get_text_config().model_type
    assert ("mrope" in functions) == ("mrope_section" in rope and not own)


def test_all_differences_at_once():
    config = FAMILIES["qwen2-vl"].config(False)
    other = FAMILIES["qwen2-vl"].natural_config(config)
    other.num_hidden_layers, other.hidden_size, other.num_attention_heads = 3, 48, 6
    other.hidden_act, other.rms_norm_eps = "gelu", 1e-3
    other.rope_parameters = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5}
    other.sliding_window = 7
    other.layer_types = [*other.layer_types, "full_attention"]
    sizes, functions = kinds(config, other)
    assert sizes == {"num_hidden_layers", "hidden_size", "num_attention_heads", "hidden_act"}
    assert functions == {"mrope", "rope", "rms_norm_eps", "sliding_window"}
    by = {d.field: d for d in compare_configs(config, other)}
    eps = config.text_config.rms_norm_eps
    assert (by["rms_norm_eps"].vlm, by["rms_norm_eps"].reference) == (eps, 1e-3)
    assert str(by["num_hidden_layers"]) == "num_hidden_layers: backbone 2, reference 3"


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("paligemma2", "attn_logit_softcapping", 9.0),
        ("paligemma2", "final_logit_softcapping", None),
        ("paligemma2", "query_pre_attn_scalar", 3),
        ("idefics3", "attention_bias", False),
        ("idefics3", "mlp_bias", True),
        ("qwen3-vl-moe", "num_experts_per_tok", 1),
        ("qwen3-vl-moe", "norm_topk_prob", False),
        ("glm4v-moe", "use_qk_norm", True),
        ("glm4v-moe", "routed_scaling_factor", 1.0),
        ("gemma3", "sliding_window", 99),
        ("llama4", "attn_temperature_tuning", False),
        ("llama4", "no_rope_layers", [1, 1, 1, 1]),
        ("lfm2-vl", "conv_L_cache", 4),
    ],
)
def test_one_field_is_one_difference_of_function(name, field, value):
    config = FAMILIES[name].config(False)
    other = FAMILIES[name].natural_config(config)
    before = kinds(config, other)[1]
    setattr(other, field, value)
    sizes, functions = kinds(config, other)
    assert not sizes
    assert functions - before == {field}


def test_another_family_of_the_same_size_is_said():
    config = FAMILIES["llava"].config(False)
    llama = FAMILIES["llava"].natural_config(config)
    values = {k: getattr(llama, k) for k in ("hidden_size", "intermediate_size", "vocab_size")}
    qwen = hf.Qwen2Config(**values, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=2, rope_parameters=llama.rope_parameters)  # fmt: skip
    found = {d.field: d for d in compare_configs(config, qwen)}
    assert found["model_type"].kind == "function"
    assert (found["model_type"].vlm, found["model_type"].reference) == ("llama", "qwen2")


def test_a_window_that_no_layer_uses_is_no_difference():
    config = FAMILIES["ovis2"].config(False)
    text = config.text_config
    text.layer_types = ["full_attention"] * 2
    other = FAMILIES["ovis2"].natural_config(config)
    other.sliding_window, other.max_window_layers = 4096, 28
    assert compare_configs(config, other) == []
