"""What a worker is asked to do, and what it hands back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mixlab.spec import Located

if TYPE_CHECKING:
    import pandas as pd

    from mixlab.study.recipes import Arm

FIT, CONFIRM, SCORE = "fit", "confirm", "score"


@dataclass(frozen=True)
class Job:
    """One unit of work of a study. Plain values only: it crosses a process border as JSON.

    Attributes:
        run: digest of all that decides the run's weights, or "reference", "start" or "placebo".
        stage: "fit" (plan, train, score dev), "confirm" (score test, merge path) or "score" (a
            model that is not trained here).
        arm: label of the recipe.
        kind: baseline, dilution, trial, twin, reference, start or placebo.
        recipe: digest of the recipe without its seed.
        settings: the recipe.
        trial: number of the trial, -1 without one.
    """

    run: str
    stage: str
    arm: str
    kind: str
    recipe: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    trial: int = -1

    @property
    def key(self) -> str:
        """Name of the job and of its parts of the tables."""
        return f"{self.run}-{self.stage}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass
class Outcome:
    """What a job found.

    Attributes:
        tables: rows by table name; written whole, once.
        objectives: dev values by metric name (a fit); NaN where the arm diverged.
        facts: further JSON values to keep beside the run.
    """

    tables: "dict[str, pd.DataFrame]" = field(default_factory=dict)
    objectives: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


Progress = Callable[..., None]
"""Called with the keywords step, steps, loss, note (each optional) while a job runs."""


class Executor(Protocol):
    """What the study asks of the rooms below it. The tests plant a cheap one."""

    def prepare(self, say: Callable[[str, float], None]) -> dict[str, Any]:
        """Find or build what runs start from; further arguments for the workers. Coordinator.

        `say` is told a stage's name and the share of it that is done.
        """
        ...

    def identity(self) -> dict[str, Any]:
        """Digests of what is not in the sweep file (JSON values), after `prepare`. Coordinator.

        `weights` holds those that decide the weights of every run, beside recipe and seed.
        """
        ...

    def recipe(self, settings: Located) -> dict[str, Any]:
        """The arm's settings checked and completed, as JSON values. Coordinator.

        Raises:
            SpecError: they are wrong.
        """
        ...

    def preflight(self, arms: "Sequence[Arm]", say: Callable[[str, float], None]) -> None:
        """Raise what would stop the jobs of these arms, on a study's first start. Coordinator."""
        ...

    def untrained(self) -> list[str]:
        """Which models are scored beside the runs: "reference", "start", "placebo", or none."""
        ...

    def bytes_needed(self, runs: int) -> int:
        """Disk space that `runs` runs take."""
        ...

    def execute(self, job: Job, folder: Path, progress: Progress) -> Outcome:
        """Do the job; `folder` is the run's own and survives an interruption. Worker."""
        ...
