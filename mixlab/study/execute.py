"""The real executor: plan, train, score and merge with the rooms below."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab import MixlabError, __version__
from mixlab.spec import Located, load_yaml, parse
from mixlab.store import digest, digest_file
from mixlab.study import pairs
from mixlab.study.child import Say
from mixlab.study.jobs import CONFIRM, FIT, Job, Outcome, Progress
from mixlab.study.places import find_file, find_folder, places
from mixlab.study.preflight import preflight
from mixlab.study.recipes import Arm
from mixlab.study.sweepfile import Pair, SweepSpec

if TYPE_CHECKING:
    from mixlab.study.arms import Rooms

_SPARE = 64 * 2**20


def make(sweep: str, spec: dict[str, Any], pair: dict[str, Any] | None = None) -> "RealExecutor":
    """The executor of a sweep file; `pair` as `prepare` found it."""
    return RealExecutor(Path(sweep), SweepSpec.model_validate(spec), pair)


class RealExecutor:
    """Arms of `mixlab.train` on plans of `mixlab.mix`, scored and merged.

    Coordinator side: `recipe`, `prepare`, `identity`, none of which loads a model. Worker side:
    `execute`.
    """

    def __init__(self, sweep: Path, spec: SweepSpec, pair: dict[str, Any] | None) -> None:
        self._sweep = sweep
        self.spec = spec
        self._pair = pair
        self._own: dict[str, str] = {}

    @property
    def pair(self) -> dict[str, Any]:
        """Folders of the pair."""
        if self._pair is None:
            raise MixlabError("the pair has not been prepared yet; call prepare first")
        return self._pair

    def recipe(self, settings: Located) -> dict[str, Any]:
        """`mix` (a file's name, or the mix) and arm settings, checked, as JSON values."""
        from mixlab.mix import MixSpec
        from mixlab.train import ArmSettings

        data = settings.data
        if not isinstance(data, dict) or "mix" not in data:
            raise settings.error((), "the arm has no mix; add `mix: data_mixes/NAME.yaml`")
        given = data["mix"]
        if isinstance(given, str):
            try:
                mix_data = load_yaml(find_file(given, self._sweep))
            except MixlabError as error:
                if isinstance(error, ValueError) and hasattr(error, "file"):
                    raise
                raise settings.error(("mix",), str(error)) from None
        else:
            mix_data = settings.at("mix")
        mix = parse(MixSpec, mix_data)
        self._own |= {source.path: source.name for source in mix.sources}
        rest = {k: v for k, v in data.items() if k not in ("mix", "vision_scale")}
        arm = parse(ArmSettings, Located(rest, settings.file, settings.lines, settings.origins))
        return {
            "mix": mix.model_dump(mode="json"),
            "vision_scale": float(data.get("vision_scale", 1.0)),
            **arm.model_dump(mode="json"),
        }

    def prepare(self, say: Say) -> dict[str, Any]:
        """Build or find the pair; what workers are to be told."""
        from mixlab.score import protocol

        for name in self.spec.protocols:
            protocol(name)
        given = self.spec.pair
        named = Pair(
            vlm=find_folder(given.vlm, self._sweep),
            reference=find_folder(given.reference, self._sweep),
        )
        found = pairs.resolve(named, say)
        mix = self.spec.arm.get("mix")
        files = [find_file(mix, self._sweep)] if isinstance(mix, str) else []
        found["rows"] = [str(place.resolve()) for place in places(*files, self._sweep)]
        extra = [str(find_file(name, self._sweep)) for name in self.spec.tasks]
        found["tasks"] = list(dict.fromkeys([*found["tasks"], *extra]))
        if not found["tasks"]:
            raise MixlabError(
                f"{self._sweep}: this pair brings no tasks; list task files under `tasks`"
            )
        self._pair = found
        return {"pair": found}

    def identity(self) -> dict[str, Any]:
        """Digests of the pair, the sources' files (not their images) and the tasks."""
        from mixlab.mix import find_source

        pair = self.pair
        roots = {name: Path(root) for name, root in pair["roots"].items()}
        folders = [Path(folder) for folder in pair["rows"]]
        own = {path: find_source(path, roots, folders, name) for path, name in self._own.items()}
        return {
            "weights": {
                "vlm": _folder_digest(Path(pair["vlm"])),
                "data": {name: _root_digest(root) for name, root in roots.items()}
                | {
                    path: digest_file(file)
                    for path, file in own.items()
                    if not any(file.is_relative_to(root) for root in roots.values())
                },
                "mixlab": __version__,
            },
            "reference": _folder_digest(Path(pair["reference"])),
            "tasks": {
                Path(task).name: digest([digest_file(task), _items_digest(Path(task))])
                for task in pair["tasks"]
            },
            "placebo": digest([_items_digest(Path(task)) for task in pair["placebo"]]),
        }

    def preflight(self, arms: Sequence[Arm], say: Say) -> None:
        """Find what would stop the jobs of these arms, before the first of them."""
        asked = [
            {"label": arm.label, "settings": dict(arm.settings), "seed": arm.seeds[0]}
            for arm in arms
        ]
        preflight(self.pair, self.spec.protocols, asked, say)

    def untrained(self) -> list[str]:
        """Both ends of the gap are scored beside the arms, and the reference under other words."""
        return ["reference", "start", *(["placebo"] if self.pair["placebo"] else [])]

    def bytes_needed(self, runs: int) -> int:
        """Final weights of every run, and three files of that size for work in progress."""
        folder = Path(self.pair["vlm"])
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        return (runs + 6) * size + _SPARE if runs else 0

    @cached_property
    def _rooms(self) -> "Rooms":
        from mixlab.study.arms import Rooms

        return Rooms(self.spec, self.pair)

    def execute(self, job: Job, folder: Path, progress: Progress) -> Outcome:
        """Do one job in this process."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._rooms.set_cache(folder.parent.parent / "answers")
        if job.stage == FIT:
            return self._rooms.fit(job, folder, progress)
        if job.stage == CONFIRM:
            return self._rooms.confirm(job, folder, progress)
        return self._rooms.untrained(job, progress)


def _folder_digest(folder: Path) -> str:
    """Content of a model folder's own files; of a hub id, its name."""
    if not folder.is_dir():
        return str(folder)
    return digest([[p.name, digest_file(p)] for p in sorted(folder.iterdir()) if p.is_file()])


def _root_digest(root: Path) -> str:
    """Content of the row files of a built-in pair (their images are made from the same seed)."""
    return digest([[p.name, digest_file(p)] for p in sorted((root / "data").glob("*.jsonl"))])


def _items_digest(task: Path) -> list[str]:
    items = load_yaml(task).data.get("items")
    path = task.parent / items if isinstance(items, str) else None
    return [digest_file(path)] if path is not None and path.is_file() else [str(items)]
