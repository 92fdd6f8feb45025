import pytest
from pydantic import Field

from mixlab.spec import Located, Settings, SpecError, apply_overrides, parse


def test_values_are_yaml_and_the_input_stays() -> None:
    data = {"arm": {"steps": 10, "batch": {"supervised_tokens": 5}}, "list": [{"a": 1}]}
    changed = apply_overrides(
        data, ["arm.batch.supervised_tokens=7", "arm.learning_rate=1e-3", "list.0.a=[x, 2]"]
    )
    assert changed == {
        "arm": {"steps": 10, "batch": {"supervised_tokens": 7}, "learning_rate": 0.001},
        "list": [{"a": ["x", 2]}],
    }
    assert data["list"] == [{"a": 1}]


def test_a_key_that_holds_dots_is_found() -> None:
    data = {"parameters": {"mix.text_fraction": {"max": 0.6}}}
    assert apply_overrides(data, ["parameters.mix.text_fraction.max=0.4"]) == {
        "parameters": {"mix.text_fraction": {"max": 0.4}}
    }


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps", "expected NAME=VALUE"),
        ("=3", "expected NAME=VALUE"),
        ("a..b=3", "no dotted name"),
        ("name.x=3", "no mapping"),
        ("list.4.a=3", "no entry of a list of 1"),
        ("a.b=[1", "not valid YAML"),
        ("a.b=2001-99-99", "not valid YAML"),
        ("a.b=" + "[" * 3000, "not valid YAML"),
    ],
)
def test_bad_overrides(override: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        apply_overrides({"name": "x", "list": [{}], "a": {}}, [override])


def test_a_part_made_by_an_override_is_named_as_such_when_it_is_unknown() -> None:
    class Spec(Settings):
        confirm: dict[str, str] = Field(default_factory=dict)

    changed = apply_overrides(Located({}, "a.yaml"), ["confrim.trials=all"])
    with pytest.raises(SpecError, match=r"--set confrim.trials=all: unknown key 'confrim'; did"):
        parse(Spec, changed)
    assert parse(Spec, apply_overrides(Located({}), ["confirm.trials=all"])).confirm == {
        "trials": "all"
    }
