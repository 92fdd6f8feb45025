"""One arm from its start to a complete model folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.models import load_model, save_model_folder
from mixlab.spec import MixlabError
from mixlab.store import check_free_space, read_json, write_json
from mixlab.train._checkpoint import Checkpoints, as_os_error, last_good
from mixlab.train._loop import Progress, fit
from mixlab.train._settings import ArmSettings

if TYPE_CHECKING:
    import pandas as pd

    from mixlab.mix import Plan, Source


@dataclass(frozen=True)
class TrainResult:
    """A trained arm.

    Attributes:
        weights: digest of all weights, as `LoadedModel.weights_digest` gives it.
        curve: run, step, loss, learning_rate, supervised_tokens, seconds; one row a step.
        seconds: spent in training, over all sessions.
        final: the model folder.
    """

    weights: str
    curve: pd.DataFrame
    seconds: float
    final: Path


def train_arm(
    start: str | Path,
    plan: Plan,
    sources: Sequence[Source],
    settings: ArmSettings,
    folder: str | Path,
    *,
    seed: int,
    progress: Progress | None = None,
    device: str | None = None,
) -> TrainResult:
    """Train the model folder `start` on `plan`, and write `folder/final` as a model folder.

    Started again after any interruption it goes on from the last checkpoint, to the same weights
    bit for bit; started again when finished it returns the result at once.

    Args:
        start: a Hugging Face folder; it is not written to.
        folder: the run's own folder; its name becomes the curve's `run`.
        progress: called after each step with steps done, steps, and the step's loss.

    Raises:
        Diverged: the loss or a gradient became NaN or infinite.
        MixlabError: the folder holds another run (another start, plan, seed or settings), a
            trainable pattern matches nothing, or the disk is full.
    """
    folder = Path(folder)
    loaded = load_model(start, device=device)
    identity = {
        "start": loaded.weights_digest(),
        "plan": plan.digest,
        "seed": seed,
        **settings.model_dump(mode="json", exclude={"checkpoint_every"}),
    }
    _claim(folder, identity)
    if (folder / "result.json").is_file():
        return _read(folder)
    checkpoints = Checkpoints(folder / "checkpoints")
    check_free_space(folder, _bytes_needed(loaded.model))
    # Batches come from the mix, which needs the same encoder that scoring will use.
    from mixlab.mix import collate

    def batch(step: int) -> Mapping[str, Any]:
        return collate(plan, step, sources, loaded.encoder)

    curve = fit(
        loaded.model, batch, settings, folder, steps=plan.steps, seed=seed, progress=progress
    )
    try:
        with as_os_error():
            save_model_folder(loaded.model, folder / "final", loaded.folder)
    except MixlabError as error:
        raise MixlabError(f"{error} {last_good(checkpoints.last())}") from error
    result = {"weights": loaded.weights_digest(), "seconds": curve[-1]["seconds"], "curve": curve}
    write_json(folder / "result.json", result)
    checkpoints.clear()
    return _read(folder)


def _bytes_needed(model: Any) -> int:
    """The final weights, and two checkpoints of weights and both moments: old and new."""
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    return size * (1 + 2 * 3)


def _claim(folder: Path, identity: dict[str, Any]) -> None:
    path = folder / "arm.json"
    if not path.is_file():
        write_json(path, identity)
        return
    found = read_json(path, "remove this run's folder to train it anew")
    other = [key for key in identity if found.get(key) != identity[key]]
    if other:
        listed = "; ".join(f"{key}: {found.get(key)} there, {identity[key]} asked" for key in other)
        raise MixlabError(
            f"{folder} holds a run of another arm ({listed}); choose another folder, or remove it"
        )


def _read(folder: Path) -> TrainResult:
    import pandas as pd

    result = read_json(folder / "result.json", "remove this run's folder to train it anew")
    curve = pd.DataFrame(result["curve"])
    curve.insert(0, "run", folder.name)
    return TrainResult(result["weights"], curve, result["seconds"], folder / "final")
