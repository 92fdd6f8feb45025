"""What the sampler proposes, as a pure function of seed, trial number and finished trials.

A sampler that lives through a study carries a random state that a restart loses: seeded, it then
repeats its first proposals (optuna#4412). Here every proposal comes from a fresh sampler, seeded by
(study seed, trial number), in a study in memory that holds the finished trials of earlier
generations and the open ones of its own. A resumed sweep therefore asks for the same recipes as an
unbroken one, whatever the number of workers and the order in which runs end.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState, create_trial

from mixlab.spec import Coordinate, Space
from mixlab.study.journal import Goal


def _distribution(coordinate: Coordinate) -> BaseDistribution:
    if coordinate.choices is not None:
        return CategoricalDistribution(coordinate.choices)
    if coordinate.integer:
        return IntDistribution(int(coordinate.low), int(coordinate.high))
    return FloatDistribution(coordinate.low, coordinate.high, log=coordinate.log)


def distributions(parameters: Mapping[str, Space]) -> dict[str, BaseDistribution]:
    """Optuna's view of the search space, by coordinate name."""
    return {
        name + coordinate.suffix: _distribution(coordinate)
        for name, space in parameters.items()
        for coordinate in space.coordinates()
    }


def _seed(study_seed: int, number: int) -> int:
    text = f"{study_seed}:{number}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def _sampler(name: str, seed: int, startup: int) -> optuna.samplers.BaseSampler:
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup, multivariate=True)


def suggest(
    space: Mapping[str, BaseDistribution],
    history: Sequence[FrozenTrial],
    *,
    number: int,
    first_of_generation: int,
    directions: Sequence[Goal],
    sampler: str,
    seed: int,
    startup: int,
) -> dict[str, Any]:
    """Coordinates of trial `number`.

    Args:
        history: trials with smaller numbers. Those from `first_of_generation` on count as open,
            even if they are finished by now.
        startup: so many finished trials before the sampler learns from them.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    scratch = optuna.create_study(
        directions=list(directions), sampler=_sampler(sampler, _seed(seed, number), startup)
    )
    for trial in sorted(history, key=lambda trial: trial.number):
        if trial.number >= number:
            continue
        known = trial.number < first_of_generation
        state = trial.state if known else TrialState.RUNNING
        scratch.add_trial(
            create_trial(
                state=state,
                params=trial.params,
                distributions=trial.distributions,
                values=trial.values if state == TrialState.COMPLETE else None,
            )
        )
    return dict(scratch.ask(fixed_distributions=dict(space)).params)
