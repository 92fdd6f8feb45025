from typing import Any

import pytest

from mixlab.spec import Choice, IntUniform, LogUniform, Simplex, SpecError, Uniform, parse_space


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"min": 0, "max": 1}, Uniform),
        ({"distribution": "log_uniform", "min": 1e-5, "max": 1e-2}, LogUniform),
        ({"distribution": "int_uniform", "min": 1, "max": 4}, IntUniform),
        ({"values": ["a", "b"]}, Choice),
        ({"distribution": "simplex", "values": ["a", "b"]}, Simplex),
    ],
)
def test_kinds(data: dict[str, Any], kind: type) -> None:
    assert isinstance(parse_space(data), kind)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ({"min": 0, "max": 0.6}, 0.25),
        ({"values": [1, "x", {"short": 1.0}]}, {"short": 1.0}),
        ({"distribution": "simplex", "values": ["a", "b", "c"]}, {"a": 0.1, "c": 0.9}),
        ({"distribution": "int_uniform", "min": 1, "max": 4}, 4),
    ],
)
def test_encode_then_decode(data: dict[str, Any], value: Any) -> None:
    space = parse_space(data)
    coordinates = space.encode(value)
    assert len(coordinates) == len(space.coordinates())
    assert space.decode(coordinates) == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"distribution": "log_uniform", "min": 0, "max": 1}, "above 0"),
        ({"distribution": "simplex", "values": ["a", "a"]}, "stands twice"),
        ({"values": []}, "at least 1"),
        ({"min": 2, "max": 1}, "empty"),
    ],
)
def test_bad_spaces(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_space(data)


def test_values_outside_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.7 lies outside 0 to 0\.6"):
        parse_space({"min": 0, "max": 0.6}).encode(0.7)
    with pytest.raises(ValueError, match="'json' is not among"):
        parse_space({"distribution": "simplex", "values": ["a", "b"]}).encode({"json": 1.0})
