"""Naive lineages: language models of the same world that were never taught some of it."""

from collections.abc import Collection
from pathlib import Path

from mixlab.formats import FORMATS
from mixlab.spec import MixlabError
from mixlab.store import atomic_folder, cache_dir, digest, lock_folder
from mixlab.testbed.build import code_digest, single_thread
from mixlab.testbed.fitting import Progress, silent
from mixlab.testbed.lessons import Curriculum
from mixlab.testbed.procedures import OPERATIONS
from mixlab.testbed.settings import SIZES


def naive(
    root: Path | None = None,
    size: str = "default",
    seed: int = 0,
    *,
    entities: Collection[str] = (),
    operations: Collection[str] = (),
    formats: Collection[str] = (),
    progress: Progress | None = None,
) -> Path:
    """A model folder like the testbed's reference, taught in the same way but for what is named.

    Args:
        root: as in `build`; the folder lies there as ``naive-...``, kept by digest.
        size: the testbed's size, and seed its seed: same world, vocabulary and initial weights.
        entities: names, or roles (``tested``, ``rehearsed``, ``refresh``), whose facts are left
            out.
        operations: procedures that are left out.
        formats: output formats that no lesson asks for.

    Raises:
        MixlabError: a name that the world does not have, or nothing to leave out.
    """
    from mixlab.testbed.parts import teach_and_save
    from mixlab.testbed.world import make_world

    if size not in SIZES:
        raise MixlabError(f"unknown testbed size {size!r}; expected one of {', '.join(SIZES)}")
    world = make_world(SIZES[size].world, seed)
    known = {name for fact in world.facts for name in (fact.entity, fact.role)}
    _check("entities or roles", entities, known)
    _check("operations", operations, OPERATIONS)
    _check("formats", formats, FORMATS)
    if not (entities or operations or formats):
        raise MixlabError(
            "a naive lineage leaves something out: name entities, operations, formats"
        )
    taught = world.curriculum().facts
    curriculum = Curriculum(
        tuple(f for f in taught if f.entity not in entities and f.role not in entities),
        tuple(o for o in OPERATIONS if o not in operations),
        tuple(f for f in FORMATS if f not in formats),
    )
    without = [sorted(entities), sorted(operations), sorted(formats)]
    key = digest({**SIZES[size].payload(), "seed": seed, "code": code_digest(), "no": without})
    home = Path(root) if root is not None else cache_dir() / "testbed"
    folder = home / f"naive-{size}-{key}"
    with lock_folder(home, wait=1800.0, name=f".{folder.name}.lock"):
        if not folder.is_dir():
            with single_thread(), atomic_folder(folder) as aside:
                teach_and_save(world, curriculum, SIZES[size], seed, aside, progress or silent)
    return folder


def _check(what: str, names: Collection[str], known: Collection[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise MixlabError(
            f"the world has no {what} named {', '.join(unknown)}; it has "
            f"{', '.join(sorted(known)[:12])}{' ...' if len(known) > 12 else ''}"
        )
