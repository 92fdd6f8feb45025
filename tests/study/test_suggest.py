from typing import Any

import numpy as np
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from mixlab.spec import parse_space, unit_to_shares
from mixlab.study.suggest import distributions, suggest

SPACE = distributions(
    {
        "f": parse_space({"min": 0, "max": 0.6}),
        "s": parse_space({"distribution": "simplex", "values": ["a", "b", "c"]}),
        "m": parse_space({"values": ["x", "y"]}),
        "n": parse_space({"distribution": "int_uniform", "min": 1, "max": 3}),
    }
)


def history(count: int, state: TrialState = TrialState.COMPLETE) -> list[FrozenTrial]:
    chance, trials = np.random.default_rng(0), []
    for number in range(count):
        f = float(chance.uniform(0, 0.6))
        trial = create_trial(
            state=state,
            params={"f": f, "s[0]": 0.5, "s[1]": 0.5, "m": "x", "n": 2},
            distributions=SPACE,
            values=[f, 1 - f] if state == TrialState.COMPLETE else None,
        )
        trial.number = number
        trials.append(trial)
    return trials


def ask(trials: list[FrozenTrial], number: int, **changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "number": number,
        "first_of_generation": number,
        "directions": ["maximize", "maximize"],
        "sampler": "tpe",
        "seed": 0,
        "startup": 4,
    }
    return suggest(SPACE, trials, **(settings | changes))


def test_a_pure_function_of_seed_number_and_history() -> None:
    trials = history(8)
    one = ask(trials, 8)
    assert one == ask(list(reversed(trials)), 8)
    assert one != ask(trials, 9)
    assert one != ask(trials, 8, seed=1)
    assert one != ask(trials, 8, sampler="random")
    assert set(one) == {"f", "s[0]", "s[1]", "m", "n"}


def test_results_within_the_generation_do_not_matter() -> None:
    """Whether the neighbour has ended depends on the workers; the proposal must not."""
    ended = history(8)
    running = [*history(7), history(8, TrialState.RUNNING)[7]]
    assert ask(ended, 8, first_of_generation=7) == ask(running, 8, first_of_generation=7)


def test_later_trials_are_not_seen() -> None:
    assert ask(history(8), 5) == ask(history(5), 5)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_early_proposals_are_uniform_on_the_simplex(sampler: str) -> None:
    """Fresh samplers with hashed seeds must not be correlated."""
    shares = []
    for seed in range(400):
        found = ask([], 0, seed=seed, sampler=sampler)
        shares.append(unit_to_shares([found["s[0]"], found["s[1]"]]))
    # Flat Dirichlet over 3: variance (k - 1) / (k^2 (k + 1)) = 1/18.
    assert np.abs(np.mean(shares, axis=0) - 1 / 3).max() < 4 * (1 / 18 / 400) ** 0.5
