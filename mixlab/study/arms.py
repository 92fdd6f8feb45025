"""One run, from its recipe to its rows: plan, train, score dev; then test and the merge path."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab import MixlabError, attribute, mix, models, recover, score, train
from mixlab.store import digest
from mixlab.study.jobs import Job, Outcome, Progress
from mixlab.study.sweepfile import SweepSpec

if TYPE_CHECKING:
    import pandas as pd


class Rooms:
    """What the jobs of one worker share: tasks, sources, encoder, the reference's weights."""

    def __init__(self, spec: SweepSpec, pair: dict[str, Any]) -> None:
        self._spec = spec
        self._pair = pair
        self._cache: Path | None = None
        self._sources: dict[str, list[mix.Source]] = {}

    def set_cache(self, folder: Path) -> None:
        """Where answers are kept."""
        self._cache = folder

    @cached_property
    def _tasks(self) -> list[score.Task]:
        return [score.load_task(task) for task in self._pair["tasks"]]

    @cached_property
    def _encoder(self) -> models.PromptEncoder:
        return models.load_encoder(self._pair["vlm"])

    @cached_property
    def _reference(self) -> models.LoadedModel:
        return models.load_model(self._pair["reference"])

    def _load_sources(self, spec: mix.MixSpec) -> list[mix.Source]:
        key = digest([source.model_dump(mode="json") for source in spec.sources])
        if key not in self._sources:
            roots = {name: Path(root) for name, root in self._pair["roots"].items()}
            folders = [Path(folder) for folder in self._pair.get("rows", ["."])]
            self._sources[key] = mix.load_sources(spec, roots, folders=folders)
        return self._sources[key]

    def _read(self, recipe: Mapping[str, Any]) -> tuple[list[mix.Source], train.ArmSettings]:
        """The sources of a recipe's mix, and its arm settings."""
        rest = {k: v for k, v in recipe.items() if k not in ("mix", "vision_scale")}
        arm = train.ArmSettings.model_validate(rest)
        return self._load_sources(mix.MixSpec.model_validate(recipe["mix"])), arm

    def _plan(
        self,
        recipe: Mapping[str, Any],
        sources: list[mix.Source],
        arm: train.ArmSettings,
        seed: int,
    ) -> mix.Plan:
        return mix.make_plan(
            mix.MixSpec.model_validate(recipe["mix"]),
            sources,
            self._encoder,
            steps=arm.steps,
            batch_supervised_tokens=arm.batch.supervised_tokens,
            seed=seed,
            vision_scale=recipe["vision_scale"],
        )

    def _scorer(
        self,
        loaded: models.LoadedModel,
        splits: Sequence[str],
        conditions: Sequence[str] = ("image",),
        tasks: list[score.Task] | None = None,
    ) -> score.Scorer:
        return score.Scorer(
            loaded,
            self._tasks if tasks is None else tasks,
            self._spec.protocols,
            splits=splits,
            conditions=conditions,
            cache=self._cache,
        )

    def fit(self, job: Job, folder: Path, progress: Progress) -> Outcome:
        """Plan, train and score the dev split."""
        import pandas as pd

        progress(note="plan")
        sources, arm = self._read(job.settings)
        try:
            plan = self._plan(job.settings, sources, arm, job.seed)
        except MixlabError as error:
            # The sampler may ask for shares that these rows cannot meet; a baseline may not.
            if job.kind == "trial":
                return self._failed(error)
            raise
        plan.save(folder / "plan.npz")

        def step(done: int, steps: int, loss: float) -> None:
            progress(step=done, steps=steps, loss=loss, note="")

        receipt, totals = plan.receipt(job.run)
        try:
            trained = train.train_arm(
                self._pair["vlm"], plan, sources, arm, folder, seed=job.seed, progress=step
            )
        except train.Diverged as error:
            return self._failed(error)
        loaded = models.load_model(trained.final)
        found = self._scorer(loaded, ["dev"]).score(_counting(progress, "score dev"))
        rows = self._with_run(recover.without_operator(found), job, plan.steps)
        run = {
            **self._run_row(job),
            **totals,
            "learning_rate": arm.learning_rate,
            "weights": trained.weights,
            "train_seconds": trained.seconds,
            "final_loss": float(trained.curve["loss"].iloc[-1]),
        }
        tables = {
            "runs": pd.DataFrame([run]),
            "receipts": receipt,
            "curves": trained.curve.assign(run=job.run),
            "scores": rows,
        }
        facts = {"plan": plan.digest, "weights": trained.weights, "steps": plan.steps}
        return Outcome(tables, dev_objectives(rows, self._spec.protocols), facts)

    def confirm(self, job: Job, folder: Path, progress: Progress) -> Outcome:
        """Score test, the permuted floor, and every alpha of the merge path."""
        import pandas as pd

        final = folder / "final"
        if not final.is_dir():
            return Outcome(facts={"skipped": "the arm failed: there are no weights"})
        loaded = models.load_model(final)
        steps = mix.Plan.load(folder / "plan.npz").steps
        whole = self._scorer(loaded, ["dev", "test"], ["image", "permuted"])
        plain = recover.without_operator(whole.score(_counting(progress, "score test")))
        # Dev rows of the fit stand in the table already; only the floor is new there.
        plain = plain[(plain["split"] != "dev") | (plain["condition"] == "permuted")]
        frames = [plain]
        for operator in self._spec.operators:
            path = self._scorer(loaded, ["dev", "test"])
            count = iter(range(1, len(operator.merge.alpha) + 1))

            def at_alpha(
                _: models.LoadedModel,
                path: score.Scorer = path,
                count: Any = count,
                points: int = len(operator.merge.alpha),
            ) -> "pd.DataFrame":
                return path.score(_counting(progress, f"merge {next(count)}/{points}"))

            frames.append(
                recover.merge_operator(
                    loaded, self._reference.backbone_state(), operator.merge.alpha, at_alpha
                )
            )
        rows = pd.concat(frames, ignore_index=True)
        return Outcome({"scores": self._with_run(rows, job, steps)})

    def untrained(self, job: Job, progress: Progress) -> Outcome:
        """Score the reference, the VLM that arms start from, or the placebo.

        The placebo is the reference asked in other words. The reference brings the items.
        """
        import pandas as pd

        tasks = None
        vlm = job.kind == "start"
        loaded = models.load_model(self._pair["vlm"]) if vlm else self._reference
        if job.kind == "reference":
            models.check_pair(models.load_model(self._pair["vlm"]), loaded, same_function=True)
        elif job.kind == "placebo":
            tasks = [score.load_task(task) for task in self._pair["placebo"]]
        scorer = self._scorer(loaded, ["dev", "test"], ["image", "permuted"], tasks)
        rows = recover.without_operator(scorer.score(_counting(progress, "score")))
        run = {**self._run_row(job), "weights": loaded.weights_digest()}
        tables = {
            "scores": self._with_run(rows, job, 0),
            "runs": pd.DataFrame([run]),
        }
        if job.kind == "reference":
            tables["items"] = score.items_table(self._tasks)
        return Outcome(tables)

    def train_and_see(
        self, mix_data: Any, settings: dict[str, Any], folder: Path, progress: Progress
    ) -> tuple[float, float]:
        """One arm into `folder`; its share of right vision test items, and with permuted images."""
        recipe = {**settings, "mix": mix_data, "vision_scale": 1.0}
        sources, arm = self._read(recipe)
        plan = self._plan(recipe, sources, arm, seed=0)

        def step(done: int, steps: int, loss: float) -> None:
            progress(step=done, steps=steps, loss=loss)

        trained = train.train_arm(
            self._pair["vlm"], plan, sources, arm, folder, seed=0, progress=step
        )
        tasks = [task for task in self._tasks if task.construct == "vision"]
        rows = score.score_model(
            models.load_model(trained.final),
            tasks,
            self._spec.protocols,
            splits=["test"],
            conditions=["image", "permuted"],
        )
        means = rows.groupby("condition")["score"].mean()
        return float(means["image"]), float(means["permuted"])

    def _failed(self, reason: Exception) -> Outcome:
        names = [metric.name for metric in self._spec.metric]
        return Outcome({}, dict.fromkeys(names, math.nan), {"failed": str(reason)})

    @staticmethod
    def _run_row(job: Job) -> dict[str, Any]:
        return {
            "run": job.run,
            "arm": job.arm,
            "kind": job.kind,
            "recipe": job.recipe or job.run,
            "seed": job.seed,
            "trial": job.trial,
        }

    @staticmethod
    def _with_run(rows: "pd.DataFrame", job: Job, step: int) -> "pd.DataFrame":
        settings = job.settings.get("mix", {})
        modality = "text" if settings.get("text_fraction") == 1.0 else "vision"
        known: dict[str, Any] = {
            "run": job.run,
            "arm": job.arm,
            "modality": "text" if job.kind in ("reference", "placebo") else modality,
            "seed": job.seed,
            "step": step,
        }
        whole = rows.assign(**known)
        return whole[[*known, *[column for column in rows.columns if column not in known]]]


def dev_objectives(rows: "pd.DataFrame", protocols: list[str]) -> dict[str, float]:
    """What the sampler is told: means on dev, each model read by its own best protocol.

    `text` is the mean over the text lines (knowledge by its unrehearsed items, procedure, format),
    `vision` the mean over vision items with their own images. NaN where there are no items.
    """
    best = attribute.own_best(rows, protocols)
    lines = attribute.lines(best)

    def mean(line: attribute.Line) -> float:
        return float(attribute.rows_of(best, line, split="dev")["score"].mean())

    text = [mean(line) for line in attribute.text_lines(lines)]
    vision = [mean(line) for line in lines if line.construct == "vision"]
    return {
        "text": math.fsum(text) / len(text) if text else math.nan,
        "vision": math.fsum(vision) / len(vision) if vision else math.nan,
    }


def _counting(progress: Progress, note: str) -> Callable[[int, int], None]:
    def count(done: int, needed: int) -> None:
        progress(note=f"{note} {done}/{needed}", step=done, steps=needed, loss=None)

    return count
