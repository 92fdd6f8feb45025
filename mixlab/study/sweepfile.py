"""The sweep file: what is compared, over which seeds, and how it is judged."""

import os
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from mixlab.spec import Fraction, Located, Settings, Space, apply_overrides, load_yaml, parse

RESERVED = ("name", "seeds")


class Pair(Settings):
    """The vision-language model that is tuned and the text LM that the gap is measured against.

    `testbed` or `smollm2` (built here), or folders.
    """

    vlm: str
    reference: str


class MergeGrid(Settings):
    """Alphas of the merge path; alpha weighs the tuned model, so 0 is the reference."""

    alpha: list[Fraction] = Field(min_length=1)


class Operator(Settings):
    """One declared attempt to bring a skill back."""

    merge: MergeGrid


class Metric(Settings):
    """One objective of the sampler, measured on the dev split."""

    name: Literal["text", "vision"]
    goal: Literal["maximize", "minimize"] = "maximize"


class Confirm(Settings):
    """Which split the baselines are confirmed on, and which sampled trials beside them.

    `front` takes those on the dev Pareto front; `all` costs more and shows the effects of single
    output formats, which need recipes off the front too.
    """

    split: Literal["test"] = "test"
    trials: Literal["front", "all"] = "front"


class Twins(Settings):
    """Arms that differ from the baselines in one index only.

    `text`: one arm with text rows only for each set of output-format shares among the baselines,
    or among those whose text fraction stands in `of`.
    """

    text: bool = False
    of: list[Fraction] | None = None
    seeds: list[int] | None = None


class SweepSpec(Settings):
    """A sweep file.

    Attributes:
        arm: `mix` (a file, or the mix itself) and the settings of the training arm.
        parameters: search spaces by dotted name below `arm`.
        baselines: settings by dotted name below `arm`; each may hold `name` and `seeds` too.
        dilution: text fractions f for which an arm without text and with 1 - f of the vision
            budget is trained; `true` means those of all baselines with every seed.
        seeds: replicates of each baseline, dilution arm and twin that names none of its own.
        trial_seeds: replicates of each sampled trial; by default the first of `seeds`.
        trials: how many recipes the sampler chooses, baselines not counted.
        generation: so many trials are asked for at a time, whatever the number of workers, so
            that the recipes do not depend on it.
        seed: of the sampler.
        margin: of equivalence, in points; part of the study's digest, so that it is declared before
            test scores are read.
        threads: CPU threads of one run; fixed here because float sums depend on it.
        tasks: further task files, beside those of the pair.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
    pair: Pair
    arm: dict[str, Any]
    parameters: dict[str, Space] = Field(default_factory=dict)
    baselines: list[dict[str, Any]] = Field(default_factory=list)
    dilution: bool | list[Fraction] = False
    twins: Twins = Twins()
    seeds: list[int] = Field(default=[0], min_length=1)
    trial_seeds: list[int] | None = None
    operators: list[Operator] = Field(default_factory=list)
    protocols: list[str] = Field(default=["strict"], min_length=1)
    metric: list[Metric] = Field(default=[Metric(name="text"), Metric(name="vision")], min_length=1)
    trials: int = Field(default=0, ge=0)
    generation: int = Field(default=2, ge=1)
    sampler: Literal["tpe", "random"] = "tpe"
    seed: int = 0
    margin: float = Field(default=3.0, gt=0)
    threads: int = Field(default=1, ge=1)
    confirm: Confirm = Confirm()
    tasks: list[str] = Field(default_factory=list)

    @field_validator("seeds", "trial_seeds")
    @classmethod
    def _distinct(cls, seeds: list[int] | None) -> list[int] | None:
        if seeds is not None and len(set(seeds)) < len(seeds):
            raise ValueError(f"a seed stands twice in {seeds}; each is one replicate")
        return seeds

    @model_validator(mode="after")
    def _something_to_do(self) -> "SweepSpec":
        if self.trials and not self.parameters:
            raise ValueError(
                f"trials is {self.trials} but there are no parameters to choose; add "
                "`parameters`, or set trials to 0"
            )
        if not self.trials and not self.baselines:
            raise ValueError("nothing to train: give `baselines`, or `parameters` and `trials`")
        names = [metric.name for metric in self.metric]
        if len(set(names)) < len(names):
            raise ValueError(f"a metric stands twice in {names}")
        return self


def load_sweep(
    file: str | os.PathLike[str], overrides: Iterable[str] = ()
) -> tuple[SweepSpec, Located]:
    """The sweep in `file` with `--set` overrides, and its located data (for later errors).

    Raises:
        SpecError: anything wrong, with file, line and the nearest right word.
    """
    located = apply_overrides(load_yaml(file), overrides)
    return parse(SweepSpec, located), located
