"""Search spaces in the words of W&B, Hydra and Optuna, plus a simplex.

A space is a set of coordinates that any sampler understands, and two maps: `decode` from
coordinates to the value that stands in a recipe, `encode` back (to give baselines to the sampler).
"""

import json
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from mixlab.spec.located import Located
from mixlab.spec.ranges import check_shares
from mixlab.spec.settings import Settings
from mixlab.spec.simplex import shares_to_unit, unit_to_shares


@dataclass(frozen=True)
class Coordinate:
    """One number or word that a sampler chooses.

    Attributes:
        suffix: added to the parameter's name ("" or "[i]").
        low, high: bounds, inclusive; ignored with `choices`.
        log: sampled on a log scale.
        integer: whole numbers only.
        choices: words to choose from.
    """

    suffix: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    integer: bool = False
    choices: tuple[Any, ...] | None = None


class _Range(Settings):
    min: float
    max: float

    @model_validator(mode="after")
    def _ordered(self) -> "_Range":
        if not (math.isfinite(self.min) and math.isfinite(self.max) and self.min < self.max):
            raise ValueError(
                f"the range from {self.min:g} to {self.max:g} is empty; min must be below max"
            )
        return self

    def decode(self, values: list[Any]) -> Any:
        """The recipe's value."""
        return values[0]

    def encode(self, value: Any) -> list[Any]:
        """The coordinates of `value`.

        Raises:
            ValueError: the value lies outside the range.
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"found {value!r}, expected a number")
        if not self.min <= value <= self.max:
            raise ValueError(f"{value:g} lies outside {self.min:g} to {self.max:g}")
        return [value]


class Uniform(_Range):
    """Any number from min to max."""

    distribution: Literal["uniform"] = "uniform"

    def coordinates(self) -> list[Coordinate]:
        """One, on a linear scale."""
        return [Coordinate("", self.min, self.max)]


class LogUniform(_Range):
    """Any positive number from min to max, on a log scale."""

    distribution: Literal["log_uniform", "log_uniform_values"] = "log_uniform"

    @model_validator(mode="after")
    def _positive(self) -> "LogUniform":
        if self.min <= 0:
            raise ValueError(f"min is {self.min:g}; a log scale needs min above 0")
        return self

    def coordinates(self) -> list[Coordinate]:
        """One, on a log scale."""
        return [Coordinate("", self.min, self.max, log=True)]


class IntUniform(_Range):
    """Any whole number from min to max, both included."""

    distribution: Literal["int_uniform"] = "int_uniform"
    min: int
    max: int

    def coordinates(self) -> list[Coordinate]:
        """One, whole."""
        return [Coordinate("", self.min, self.max, integer=True)]


class Choice(Settings):
    """One of the listed values."""

    distribution: Literal["choice", "categorical"] = "choice"
    values: list[Any] = Field(min_length=1)

    def _word(self, value: Any) -> Any:
        plain = value is None or isinstance(value, bool | int | float | str)
        return value if plain else json.dumps(value, sort_keys=True)

    def coordinates(self) -> list[Coordinate]:
        """One, categorical; a list or mapping shows as JSON."""
        return [Coordinate("", choices=tuple(self._word(value) for value in self.values))]

    def decode(self, values: list[Any]) -> Any:
        """The recipe's value."""
        return next(value for value in self.values if self._word(value) == values[0])

    def encode(self, value: Any) -> list[Any]:
        """The coordinate of `value`.

        Raises:
            ValueError: it is not among the values.
        """
        if value not in self.values:
            raise ValueError(f"{value!r} is not among {self.values!r}")
        return [self._word(value)]


class Simplex(Settings):
    """Shares over the listed names that sum to 1, uniform over all such shares."""

    distribution: Literal["simplex"] = "simplex"
    values: list[str] = Field(min_length=2)

    @model_validator(mode="after")
    def _unique(self) -> "Simplex":
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"a name stands twice in {self.values!r}")
        return self

    def coordinates(self) -> list[Coordinate]:
        """k - 1 of them, each uniform in [0, 1]."""
        return [Coordinate(f"[{index}]") for index in range(len(self.values) - 1)]

    def decode(self, values: list[Any]) -> dict[str, float]:
        """Shares by name; names with no share are left out."""
        shares = zip(self.values, unit_to_shares(values), strict=True)
        return {name: share for name, share in shares if share > 0.0}

    def encode(self, value: Any) -> list[Any]:
        """The coordinates of shares by name.

        Raises:
            ValueError: a name is not in the simplex, or the shares are no shares.
        """
        if not isinstance(value, dict):
            raise ValueError(f"found {value!r}, expected shares by name")
        unknown = [name for name in value if name not in self.values]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not among {self.values!r}")
        check_shares(value)
        return list(shares_to_unit([float(value.get(name, 0.0)) for name in self.values]))


def _kind(value: Any) -> str:
    if not isinstance(value, dict):
        return str(getattr(value, "distribution", type(value).__name__))
    default = "choice" if "values" in value else "uniform"
    return str(value.get("distribution", default))


Space = Annotated[
    Annotated[Uniform, Tag("uniform")]
    | Annotated[LogUniform, Tag("log_uniform")]
    | Annotated[LogUniform, Tag("log_uniform_values")]
    | Annotated[IntUniform, Tag("int_uniform")]
    | Annotated[Choice, Tag("choice")]
    | Annotated[Choice, Tag("categorical")]
    | Annotated[Simplex, Tag("simplex")],
    Discriminator(_kind),
]
"""A search space, told apart by `distribution` (without it: `values` is a choice, else uniform)."""


class _One(Settings):
    space: Space


def parse_space(data: Any) -> Space:
    """A space from plain data such as `{"distribution": "uniform", "min": 0, "max": 1}`.

    Raises:
        SpecError: naming what is wrong.
    """
    from mixlab.spec.parsing import parse

    return parse(_One, Located({"space": data})).space
