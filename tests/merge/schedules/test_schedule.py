import pickle
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mergekit.config import evaluate_setting

from mixlab.merge import Schedule
from mixlab.spec import MixlabError


def language_model(layers: int = 4, vision: bool = True) -> list[str]:
    names = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
    for i in range(layers):
        block = f"model.layers.{i}"
        names += [f"{block}.self_attn.q_proj.weight", f"{block}.mlp.up_proj.weight"]
        names += [f"{block}.input_layernorm.weight"]
    if vision:
        names += [f"visual.blocks.{i}.mlp.fc1.weight" for i in range(8)]
        names += ["visual.merger.mlp.0.weight"]
    return names


def values(schedule, names=None, layers: int = 4) -> dict:
    parsed = Schedule.parse(schedule)
    found = {name: parsed.at(name, layers) for name in names or language_model(layers)}
    return {name: value for name, value in found.items() if value is not None}


numbers = st.floats(-2, 2, allow_nan=False)


@given(
    st.one_of(
        st.lists(numbers, min_size=1, max_size=6),
        st.lists(st.booleans(), min_size=1, max_size=6),
        st.lists(st.sampled_from(["sum", "count"]), min_size=1, max_size=6),
    ),
    st.integers(1, 40),
)
def test_a_list_is_mergekits_gradient(setting, layers):
    schedule = Schedule.parse(setting)
    kind = type(setting[0])
    for layer in range(layers):
        name = f"model.layers.{layer}.mlp.up_proj.weight"
        t = layer / (layers - 1) if layers > 1 else 1
        expected = evaluate_setting(name, setting, t, validate=kind)
        assert schedule.value(name, layer, layers) == expected
    assert schedule.value("lm_head.weight", None, layers) is None


def test_lines_by_hand():
    found = values({"lines": {"alpha": 0.2, "beta": 0.6}})
    assert [found[f"model.layers.{i}.mlp.up_proj.weight"] for i in range(4)] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8]
    )
    assert len(found) == 12
    one = Schedule.parse({"lines": {"alpha": 0.25}})
    assert one == Schedule.parse({"lines": {"alpha": 0.25, "beta": 0.75}})
    assert one.value("", 0, 1) == 0.25


@pytest.mark.parametrize(
    ("start", "first"), [(0.5, 2), (0.75, 3), (0.0, 0), (0.3, 2), (1, 1), (3, 3), (0, 0)]
)
def test_late_layers_only(start, first):
    found = values({"late": 0.3, "from": start})
    assert set(found.values()) == {0.3}
    blocks = [n for n in language_model() if n.startswith("model.layers.")]
    assert set(found) == {n for n in blocks if int(n.split(".")[2]) >= first}


def test_a_tenth_of_thirty_layers_is_three():
    schedule = Schedule.parse({"late": 1.0, "from": 0.1})
    assert [schedule.value("", i, 30) for i in (2, 3)] == [None, 1.0]


def test_one_value_a_layer_and_null_keeps():
    found = values({"layers": [0.1, None, 0.3, 0]})
    assert [found.get(f"model.layers.{i}.mlp.up_proj.weight") for i in range(4)] == [
        0.1, None, 0.3, 0,
    ]  # fmt: skip
    with pytest.raises(MixlabError, match="gives 3 values, the model has 4 layers"):
        Schedule.parse({"layers": [1, 2, 3]}).unmatched(language_model())


def test_a_module_is_the_language_models_and_never_the_towers():
    assert set(values({"module": "mlp", "value": 0.5})) == {
        f"model.layers.{i}.mlp.up_proj.weight" for i in range(4)
    }
    assert set(values({"module": ["lm_head", "final_norm"], "value": 1})) == {
        "lm_head.weight",
        "model.norm.weight",
    }
    assert len(values({"module": "norms", "value": 1})) == 4


def test_the_first_rule_that_names_a_tensor_decides():
    rules = [
        {"match": "*.q_proj.*", "layers": "0-1", "value": None},
        {"module": "attention", "value": [0.0, 0.3]},
        {"layers": "2-", "value": {"lines": {"alpha": 1, "beta": 3}}},
        {"value": [7, 7]},
        {"match": ["lm_head.*", "model.norm.*"], "value": 9},
    ]
    found = values(rules)
    assert "model.layers.1.self_attn.q_proj.weight" not in found
    assert found["model.layers.3.self_attn.q_proj.weight"] == 0.3
    assert found["model.layers.3.mlp.up_proj.weight"] == 4
    assert found["model.layers.1.mlp.up_proj.weight"] == 7
    # A gradient names no tensor outside blocks, so the rule after it is reached.
    assert found["lm_head.weight"] == 9
    assert "model.embed_tokens.weight" not in found
    assert Schedule.parse(rules).unmatched(language_model()) == []


@given(st.integers(1, 12), st.sampled_from(["1", 1, "0-2", "2-", "0, 2-3", [0, "3-"]]))
def test_layer_ranges(layers, text):
    expected = {
        "1": {1}, "0-2": {0, 1, 2}, "2-": set(range(2, layers)), "0, 2-3": {0, 2, 3},
        "[0, '3-']": {0, *range(3, layers)},
    }[str(text)]  # fmt: skip
    found = values({"layers": text, "value": 1}, language_model(layers), layers)
    assert {int(n.split(".")[2]) for n in found} == expected & set(range(layers))


def test_a_constant_names_everything():
    assert set(values(0.5)) == set(language_model())
    assert not Schedule.parse(0.5).varies
    assert Schedule.parse(True).at("x", 0) is True
    assert Schedule.parse("count").at("x", 0) == "count"


def test_what_matches_nothing_is_told_with_near_names():
    names = language_model()
    told = Schedule.parse([{"match": "mlp", "value": 1}, {"value": 2}]).unmatched(names)
    assert len(told) == 1
    assert "did you mean '*mlp*', as in model.layers.*.mlp.up_proj.weight" in told[0]
    (told,) = Schedule.parse({"match": "model.layers.*.mlp.uo_proj.*", "value": 1}).unmatched(names)
    assert "model.layers.*.mlp.up_proj.weight" in told
    (told,) = Schedule.parse({"layers": "9-12", "value": 1}).unmatched(names)
    assert "there are 4 layers, counted from 0" in told
    (told,) = Schedule.parse([{"value": 1}, {"module": "mlp", "value": 2}]).unmatched(names)
    assert "never reached" in told
    (told,) = Schedule.parse({"module": "lm_head", "value": [0, 1]}).unmatched(names)
    assert "gives its tensors no value" in told
    (told,) = Schedule.parse({"late": 1, "from": 30}).unmatched(names)
    assert "names no tensor" in told
    with pytest.raises(MixlabError, match="names no tensor"):
        Schedule.parse([0, 1]).check(["lm_head.weight"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "expected a list"),
        ([1, "a"], "mixes kinds"),
        ([True, 0.5], "mixes kinds"),
        (float("nan"), "not finite"),
        ([0, float("inf")], "not finite"),
        (None, "no schedule"),
        ({}, "make no schedule"),
        ({"late": 1}, "needs `from:`"),
        ({"late": 1, "from": 1.0}, "expected a share"),
        ({"late": 1, "from": True}, "expected a number"),
        ({"late": 1, "from": -1}, "expected a share"),
        ({"gradeint": [1]}, "did you mean 'gradient'"),
        ({"lines": [1, 2]}, "expected {alpha"),
        ({"lines": {"alpha": "x"}}, "expected a number"),
        ([{"module": "atention", "value": 1}], "did you mean 'attention'"),
        ([{"match": "*"}], "rule 1 has no `value`"),
        ([{"value": 1}, {"layers": "3-1", "value": 1}], "rule 2: layers '3-1'"),
        ([{"layers": "late", "value": 1}], "expected an index, a range"),
        ([{"math": "*", "value": 1}], "did you mean 'match'"),
        (SimpleNamespace(), "no schedule"),
    ],
)
def test_mistakes_are_told(wrong, message):
    with pytest.raises(MixlabError, match=message):
        Schedule.parse(wrong)


@pytest.mark.parametrize(
    ("plain", "line"),
    [
        (0.5, "0.5"),
        (True, "true"),
        ([0, 0.5, 1], "over layers 0 to 0.5 to 1"),
        ({"layers": [0.1, None]}, "by layer [0.1, kept]"),
        ({"layers": list(range(20))}, "by layer [0, 1, 2, …, 17, 18, 19]"),
        ({"lines": {"alpha": 0.2, "beta": 0.8}}, "LiNeS 0.2 + 0.8 l / (L - 1)"),
        ({"late": 1, "from": 0.5}, "1 from 50% of the depth on"),
        ({"late": 1, "from": 16}, "1 from layer 16 on"),
        (
            [{"module": "mlp", "layers": "2-,0", "value": None}, {"value": [0, 1]}],
            "mlp, layers 2-,0: kept; the rest: over layers 0 to 1",
        ),
    ],
)
def test_one_line_for_tables_and_pickles(plain, line):
    schedule = Schedule.parse(plain)
    assert schedule.describe() == line
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert Schedule.parse(schedule) is schedule
