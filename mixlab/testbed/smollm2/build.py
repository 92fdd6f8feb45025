"""Build the SmolLM2 pair: reference, VLM, rows and tasks; whole or not at all, kept by digest."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mixlab.store import (
    atomic_folder,
    cache_dir,
    check_free_space,
    digest,
    lock_folder,
    write_json,
    write_text,
)
from mixlab.testbed.build import single_thread
from mixlab.testbed.fitting import Progress, silent
from mixlab.testbed.folder import MARKER, TestbedFolder
from mixlab.testbed.smollm2.size import DEFAULT, PairSize

_BYTES = 3 * 2**30
_TEXT_TASKS = ["knowledge", "sums", "words", "format"]


def build_smollm2(
    root: Path | None = None,
    progress: Progress | None = None,
    *,
    seed: int = 0,
    size: PairSize = DEFAULT,
) -> TestbedFolder:
    """SmolLM2-135M-Instruct and a small VLM over it, built now unless they lie under `root`.

    Args:
        root: folder that keeps built pairs; by default `smollm2/` in mixlab's cache folder.
        progress: called with a stage's name and the share of it that is done, 0 to 1.
        seed: decides items, pictures and initial weights.

    The folder is laid out as a testbed: `reference/` (float32, tokenizer as published), `vlm/` (a
    SigLIP tower taught on the testbed's pictures, a projector, and the same weights), `data/`,
    `tasks/` with a `placebo/` of the same items in other words, and `build.json` with the
    reference's dev rates by kind of item. A build that was killed goes on from the parts it had
    finished.

    Raises:
        MixlabError: the weights' package is not installed (says how to), or the disk is full.
    """
    from mixlab.testbed.smollm2.weights import find_weights, weights_digest

    file = find_weights()
    home = Path(root) if root is not None else cache_dir() / "smollm2"
    name = digest({**size.payload(), "seed": seed, "file": weights_digest(file), "code": _code()})
    folder = TestbedFolder(home / name)
    if folder.complete:
        return folder
    home.mkdir(parents=True, exist_ok=True)
    check_free_space(home, _BYTES)
    with lock_folder(home, wait=3600.0, name=f".{name}.lock"), single_thread():
        if not folder.complete:
            _build(file, folder, home / f".{name}.parts", seed, size, progress or silent)
    return folder


def _code() -> str:
    """Digest of the sources that decide the content: other code makes another pair."""
    here = Path(__file__).parent
    shared = ("content", "fitting", "pictures", "scenes", "tower")
    files = [*sorted(here.glob("*.py")), here / "facts.txt", here / "words.yaml"]
    files += [here.parent / f"{name}.py" for name in shared]
    return digest([path.read_text(encoding="utf-8") for path in files])


def _build(
    file: Path, folder: TestbedFolder, parts: Path, seed: int, size: PairSize, progress: Progress
) -> None:
    from mixlab.testbed.smollm2 import weights

    parts.mkdir(exist_ok=True)
    clock = _Clock(parts / "seconds.json")
    reference = parts / "reference"
    if not reference.is_dir():
        progress("read SmolLM2", 0.0)
        with clock("read"):
            weights.save_reference(file, reference)
        progress("read SmolLM2", 1.0)
    if not (parts / "vlm").is_dir():
        with clock("vlm"):
            _make_vlm(parts, seed, size, progress)
    if not (parts / "replay.jsonl").is_file() or not (parts / "rates.json").is_file():
        with clock("replay and dev rates"):
            _ask_reference(parts, seed, size, progress)
    with atomic_folder(folder.path) as aside:
        _finish(aside, parts, clock.seconds, seed, size, progress)
    shutil.rmtree(parts, ignore_errors=True)


def _make_vlm(parts: Path, seed: int, size: PairSize, progress: Progress) -> None:
    from mixlab.testbed.smollm2 import assembly, weights
    from mixlab.testbed.smollm2.vision import pictures
    from mixlab.testbed.tower import make_tower, pretrain

    tower_folder = parts / "tower"
    if not tower_folder.is_dir():
        tower = make_tower(size.vision, seed)
        accuracy = pretrain(tower, size.vision, seed, progress)
        with atomic_folder(tower_folder) as aside:
            tower.save_pretrained(aside)
            (aside / "accuracy.json").write_text(json.dumps(accuracy), encoding="utf-8")
    from transformers import SiglipVisionModel

    tower = SiglipVisionModel.from_pretrained(tower_folder).eval()
    reference, tokenizer = weights.load_reference(parts / "reference")
    vlm = assembly.assemble(reference, tower, tokenizer, seed)
    scenes = [scene for scene, _ in pictures("train", size.pictures, seed)]
    named = assembly.name_cells(vlm, tokenizer, scenes, seed, progress)
    loss = assembly.align(vlm, tokenizer, scenes, size.align_steps, seed, progress)
    write_json(parts / "aligned.json", {"cells_error": named, "caption_loss": round(loss, 4)})
    with atomic_folder(parts / "vlm") as aside:
        assembly.save(vlm, tokenizer, aside)


def _ask_reference(parts: Path, seed: int, size: PairSize, progress: Progress) -> None:
    """Self-replay rows, and the reference's dev rates."""
    from mixlab.models import load_model
    from mixlab.testbed.smollm2.figures import dev_rates
    from mixlab.testbed.smollm2.replay import replay_prompts, replay_rows
    from mixlab.testbed.smollm2.tasks import text_items, write_tasks

    loaded = load_model(parts / "reference", device="cpu")
    if not (parts / "replay.jsonl").is_file():
        prompts = replay_prompts(seed, size.replay_each, size.replay_open)
        rows = replay_rows(loaded, prompts, lambda n: progress("self-replay", n / len(prompts)))
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(parts / "replay.jsonl", text)
    progress("dev rates", 0.0)
    more = replace(size, instruction_dev=size.selection)
    write_tasks(parts / "tasks", text_items(more, seed)[0])
    write_json(parts / "rates.json", dev_rates(loaded, parts / "tasks", _TEXT_TASKS))
    progress("dev rates", 1.0)


def _finish(
    aside: Path,
    parts: Path,
    seconds: dict[str, float],
    seed: int,
    size: PairSize,
    progress: Progress,
) -> None:
    """Files of all parts, and last the marker."""
    from mixlab.testbed.smollm2.tasks import text_items, write_rows, write_tasks, write_vision

    progress("files", 0.0)
    items, rows = text_items(size, seed)
    items["vision"] = write_vision(aside, size, seed)
    write_tasks(aside / "tasks", items)
    write_rows(aside / "data" / "short.jsonl", rows)
    shutil.copyfile(parts / "replay.jsonl", aside / "data" / "replay.jsonl")
    for name in ("reference", "vlm"):
        shutil.copytree(parts / name, aside / name)
    marker: dict[str, Any] = {
        "size": size.payload(),
        "seed": seed,
        "reference_dev": json.loads((parts / "rates.json").read_text()),
        "tower": json.loads((parts / "tower" / "accuracy.json").read_text()),
        "align": json.loads((parts / "aligned.json").read_text()),
        "seconds": seconds,
    }
    (aside / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    progress("files", 1.0)


class _Clock:
    """Seconds by stage, kept over interruptions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}
        self._stage = ""
        self._began = 0.0

    def __call__(self, stage: str) -> "_Clock":
        self._stage = stage
        return self

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds[self._stage] = round(time.monotonic() - self._began, 1)
        write_json(self.path, self.seconds)
