"""Before a study claims its folder: everything that would stop it later and can be seen now."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mixlab import MixlabError
from mixlab.study.child import Say, answer, ask

_TEXT = ("knowledge", "procedure", "format")


def preflight(
    pair: dict[str, Any], protocols: Sequence[str], arms: Sequence[dict[str, Any]], say: Say
) -> None:
    """Check models, tasks and rows as the jobs will read them, in a process of its own.

    Args:
        pair: as `resolve` found it, with all tasks and the folders of `rows`.
        arms: label, settings and first seed of each arm that is not sampled.

    Raises:
        MixlabError: the models do not load or do not fit together, a task or its images cannot be
            read, or an arm's rows cannot be planned.
    """
    question = {"pair": pair, "protocols": list(protocols), "arms": list(arms)}
    ask("mixlab.study.preflight:main", question, say, "the check of the study's inputs")


def _check(question: dict[str, Any], say: Say) -> dict[str, Any]:
    from mixlab import mix, models, score, train

    pair, arms = question["pair"], question["arms"]
    roots = {name: Path(root) for name, root in pair["roots"].items()}
    vlm, sources = models.load_encoder(pair["vlm"]), {}
    tasks = [score.load_task(task) for task in pair["tasks"]]
    if not any(task.construct in _TEXT and task.in_splits(["test"]) for task in tasks):
        raise MixlabError(
            "no task measures text, so no loss against the reference can be found: the tasks are "
            + ", ".join(f"{task.name} ({task.construct})" for task in tasks)
            + f". List one of {', '.join(_TEXT)} with test items under `tasks`"
        )
    for number, arm in enumerate(arms):
        say("check of the rows", number / len(arms))
        settings = dict(arm["settings"])
        spec = mix.MixSpec.model_validate(settings.pop("mix"))
        scale = settings.pop("vision_scale")
        given = train.ArmSettings.model_validate(settings)
        key = repr(spec.sources)
        if key not in sources:
            folders = [Path(folder) for folder in pair["rows"]]
            sources[key] = mix.load_sources(spec, roots, folders=folders)
        try:
            mix.make_plan(
                spec,
                sources[key],
                vlm,
                steps=given.steps,
                batch_supervised_tokens=given.batch.supervised_tokens,
                seed=arm["seed"],
                vision_scale=scale,
            )
        except MixlabError as error:
            raise MixlabError(f"arm {arm['label']!r}: {error}") from error
    say("check of the models", 0.0)
    loaded = models.load_model(pair["vlm"])
    models.check_pair(loaded, models.load_model(pair["reference"]), same_function=True)
    score.Scorer(loaded, tasks, question["protocols"], conditions=["image", "permuted"]).collect()
    say("check of the models", 1.0)
    return {}


def main() -> None:
    """Check what standard input names."""
    answer(_check)
