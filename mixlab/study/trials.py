"""The study's trials: enqueued baselines first, then generations of sampled recipes.

Exactly once, by three facts: a trial is made by one line of the journal that holds its parameters
too (RUNNING from the start), it is ended by one line, and its number is its place in the plan. What
a killed start left RUNNING is continued under its number.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, TrialState, create_trial

from mixlab import MixlabError
from mixlab.store import Tables
from mixlab.study.journal import open_study
from mixlab.study.recipes import Arm, Recipes
from mixlab.study.suggest import distributions, suggest
from mixlab.study.sweepfile import SweepSpec

_LEAST_STARTUP = 6


class TrialBook:
    """Trials of one study, in its journal."""

    def __init__(
        self, journal: Path, spec: SweepSpec, recipes: Recipes, baselines: Sequence[Arm]
    ) -> None:
        self._spec = spec
        self._recipes = recipes
        self._space = distributions(spec.parameters)
        self._directions = [metric.goal for metric in spec.metric]
        self._study = open_study(journal, spec.name, self._directions)
        self._enqueued = [arm for arm in baselines if arm.coordinates is not None and self._space]
        self.arms: list[Arm] = []
        for number, trial in enumerate(self._trials()):
            arm = self._planned(number, trial)
            if trial.user_attrs.get("recipe") != arm.recipe:
                raise MixlabError(
                    f"trial {number} in {journal} was made by other settings than the sweep file "
                    "now gives. Start anew with --new."
                )
            self.arms.append(arm)
        for arm in self._enqueued[len(self.arms) :]:
            self._create(arm, "enqueued")

    def _trials(self) -> list[FrozenTrial]:
        return sorted(self._study.get_trials(deepcopy=False), key=lambda trial: trial.number)

    def _planned(self, number: int, trial: FrozenTrial) -> Arm:
        if number < len(self._enqueued):
            return self._numbered(self._enqueued[number], number)
        return self._recipes.trial(number, trial.params)

    @staticmethod
    def _numbered(arm: Arm, number: int) -> Arm:
        return Arm(arm.label, arm.kind, arm.settings, arm.seeds, arm.coordinates, number)

    def _create(self, arm: Arm, source: str) -> Arm:
        number = len(self.arms)
        arm = self._numbered(arm, number)
        self._study.add_trial(
            create_trial(
                state=TrialState.RUNNING,
                params=dict(arm.coordinates or {}),
                distributions=self._space,
                user_attrs={"recipe": arm.recipe, "arm": arm.label, "source": source},
            )
        )
        self.arms.append(arm)
        return arm

    def numbered(self, arm: Arm) -> Arm:
        """`arm` with the number of its trial, where it has one."""
        return next((one for one in self.arms if one.recipe == arm.recipe), arm)

    @property
    def total(self) -> int:
        """Trials that the study will have."""
        return max(len(self._enqueued) + self._spec.trials, len(self.arms))

    def finished(self, number: int) -> bool:
        """Whether trial `number` has ended, well or not."""
        return bool(self._trials()[number].state.is_finished())

    def open(self) -> list[Arm]:
        """Arms of trials that have not ended."""
        trials = self._trials()
        return [arm for arm in self.arms if not trials[arm.trial].state.is_finished()]

    def ask(self) -> list[Arm]:
        """The next generation, or what is missing of the last one; empty while one is open."""
        first = len(self._enqueued)
        made = []
        while len(self.arms) < self.total:
            number = len(self.arms)
            start = first + (number - first) // self._spec.generation * self._spec.generation
            trials = self._trials()
            if not all(trial.state.is_finished() for trial in trials[:start]):
                break
            coordinates = suggest(
                self._space,
                trials,
                number=number,
                first_of_generation=start,
                directions=self._directions,
                sampler=self._spec.sampler,
                seed=self._spec.seed,
                startup=max(_LEAST_STARTUP, first),
            )
            made.append(self._create(self._recipes.trial(number, coordinates), "sampler"))
        return made

    def tell(self, number: int, replicates: Sequence[Mapping[str, float]]) -> None:
        """End a trial with the mean over its replicates; one that is not finite fails it."""
        values = [
            math.fsum(one.get(metric.name, math.nan) for one in replicates) / len(replicates)
            for metric in self._spec.metric
        ]
        if all(math.isfinite(value) for value in values):
            self._study.tell(number, values)
        else:
            self._study.tell(number, state=TrialState.FAIL)

    def to_confirm(self) -> list[Arm]:
        """Arms of the sampled trials that are scored on test: all that ended well, or the front.

        On the Pareto front baselines count as rivals.
        """
        if self._spec.confirm.trials == "front":
            chosen = {trial.number for trial in self._study.best_trials}
        else:
            chosen = {t.number for t in self._trials() if t.state == TrialState.COMPLETE}
        return [arm for arm in self.arms if arm.trial in chosen and arm.kind == "trial"]

    def write_table(self, tables: Tables) -> None:
        """Add ended trials to the table `trials`, each once."""
        import pandas as pd

        metrics = [metric.name for metric in self._spec.metric]
        for trial, arm in zip(self._trials(), self.arms, strict=True):
            key = f"{trial.number:06d}"
            if not trial.state.is_finished() or tables.has("trials", key):
                continue
            values = trial.values or [math.nan] * len(metrics)
            row: dict[str, Any] = {
                "number": trial.number,
                "recipe": arm.recipe,
                "arm": arm.label,
                "state": trial.state.name.lower(),
                "params": json.dumps(trial.params, sort_keys=True),
                "text": math.nan,
                "vision": math.nan,
                "source": trial.user_attrs["source"],
            }
            row.update(zip(metrics, values, strict=True))
            tables.append("trials", pd.DataFrame([row]), key)
