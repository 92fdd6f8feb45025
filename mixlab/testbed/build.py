"""Build a testbed: two processes, whole or not at all, kept by digest."""

import ast
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mixlab.spec import MixlabError
from mixlab.store import atomic_folder, cache_dir, check_free_space, digest, lock_folder
from mixlab.testbed.fitting import Progress, silent
from mixlab.testbed.folder import MARKER, TestbedFolder
from mixlab.testbed.settings import SIZES, Size

if TYPE_CHECKING:
    from mixlab.testbed.world import World

_BYTES = 200 * 2**20


def build(
    root: Path | None = None,
    size: str = "default",
    seed: int = 0,
    progress: Progress | None = None,
) -> TestbedFolder:
    """The testbed of a size and seed, built now unless a finished one lies under ``root``.

    Args:
        root: folder that keeps testbeds; by default ``testbed/`` in mixlab's cache folder.
        size: ``default`` (about 1M parameters, minutes on 2 cores) or ``micro`` (seconds).
        seed: decides the world and the initial weights. The same seed gives the same bytes.
        progress: called with a stage's name and the share of it that is done, 0 to 1.

    The reference and the tower are taught in two processes. A build that was killed leaves its
    finished parts aside, and the next one goes on from them; the folder itself appears whole.

    Raises:
        MixlabError: an unknown size, a full disk, or a part's process that failed.
    """
    if size not in SIZES:
        raise MixlabError(f"unknown testbed size {size!r}; expected one of {', '.join(SIZES)}")
    settings = SIZES[size]
    home = Path(root) if root is not None else cache_dir() / "testbed"
    name = f"{size}-{digest({**settings.payload(), 'seed': seed, 'code': code_digest()})}"
    folder = TestbedFolder(home / name)
    if folder.complete:
        return folder
    check_free_space(home, _BYTES)
    with lock_folder(home, wait=1800.0, name=f".{name}.lock"):
        if not folder.complete:
            _build(folder, home / f".{name}.parts", settings, seed, progress or silent)
    return folder


def code_digest() -> str:
    """Digest of what this package's code says: a testbed made by other code is another testbed."""
    here = Path(__file__).parent
    names = (
        "asking assembly batches content facts files fitting items lessons patterns phrases "
        "pictures procedures reading reference scenes tokenizer tower world"
    )
    sources = [(here / f"{name}.py").read_text(encoding="utf-8") for name in names.split()]
    return digest([ast.dump(ast.parse(source)) for source in sources])


def _build(folder: TestbedFolder, parts: Path, size: Size, seed: int, progress: Progress) -> None:
    from mixlab.testbed.parts import make_reference_part
    from mixlab.testbed.world import make_world

    began = time.monotonic()
    parts.mkdir(exist_ok=True)
    times: dict[str, float] = {}
    with single_thread():
        tower = _start_tower(parts, size.name, seed)
        try:
            progress("world", 0.0)
            world = make_world(size.world, seed)
            progress("world", 1.0)
            if not (parts / "reference").is_dir():
                make_reference_part(world, size, seed, parts / "reference", progress)
            times["reference"] = round(time.monotonic() - began, 1)
            _wait_for(tower, parts)
        finally:
            if tower is not None and tower.poll() is None:
                tower.kill()
        times["tower"] = round(time.monotonic() - began, 1)
        with atomic_folder(folder.path) as aside:
            _finish(aside, parts, world, size, seed, progress, began, times)
    shutil.rmtree(parts, ignore_errors=True)


def _start_tower(parts: Path, size: str, seed: int) -> "subprocess.Popen[bytes] | None":
    """The tower's process, which ends by itself if this one dies; None if the tower is there."""
    if (parts / "tower").is_dir():
        return None
    command = [sys.executable, "-m", "mixlab.testbed.parts", str(parts), size, str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (parts / "tower.log").open("wb") as log:
        return subprocess.Popen(
            [*command, str(os.getpid())], stdout=log, stderr=log, env=environment
        )


def _wait_for(tower: "subprocess.Popen[bytes] | None", parts: Path) -> None:
    if tower is not None and tower.wait() != 0:
        log = (parts / "tower.log").read_text(errors="replace").strip()
        raise MixlabError(
            f"the process that trains the vision tower ended with {tower.returncode}: "
            f"{log[-500:] or 'it said nothing'}; run the build again to go on from its parts"
        )


def _finish(
    aside: Path,
    parts: Path,
    world: "World",
    size: Size,
    seed: int,
    progress: Progress,
    began: float,
    times: dict[str, float],
) -> None:
    """Everything that needs both parts: files, the aligned VLM, figures, and last the marker."""
    from mixlab.testbed.assembly import align, assemble, save
    from mixlab.testbed.figures import text_figures, vision_figures
    from mixlab.testbed.files import write_world
    from mixlab.testbed.parts import load_reference, load_tower

    progress("files", 0.0)
    write_world(world, aside)
    progress("files", 1.0)
    reference, tokenizer = load_reference(parts / "reference")
    tower = load_tower(parts / "tower")
    vlm = assemble(reference, tower, tokenizer, seed)
    start = time.monotonic()
    rows = world.rows["vision_train"]
    loss = align(vlm, tokenizer, rows, aside / "data", size.vision, seed, progress)
    times["align"] = round(time.monotonic() - start, 1)
    shutil.copytree(parts / "reference", aside / "reference")
    save(vlm, tokenizer, aside / "vlm")
    progress("figures", 0.0)
    figures = text_figures(reference, tokenizer, world.items)
    start_figures = vision_figures(vlm, tokenizer, world.items["vision"], aside / "tasks")
    progress("figures", 1.0)
    times["total"] = round(time.monotonic() - began, 1)
    marker = {
        "size": size.payload(),
        "seed": seed,
        "reference": figures,
        "start_vision": start_figures,
        "tower": json.loads((parts / "tower" / "accuracy.json").read_text()),
        "align_loss": round(loss, 4),
        "seconds": times,
    }
    (aside / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")


@contextmanager
def single_thread() -> Iterator[None]:
    """One torch thread and no progress bars of transformers for a while.

    Sums in one order give the same bytes on every run; two processes use the second core.
    """
    import torch
    from transformers.utils import logging as transformers_logging

    threads = torch.get_num_threads()
    bars = transformers_logging.is_progress_bar_enabled()
    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if bars:
            transformers_logging.enable_progress_bar()
