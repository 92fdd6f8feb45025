"""From the names in `pair:` to folders; built-in pairs are built in a process of their own."""

import re
from pathlib import Path
from typing import Any

from mixlab import MixlabError
from mixlab.spec import nearest
from mixlab.study.child import Say, answer, ask
from mixlab.study.sweepfile import Pair

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def resolve(pair: Pair, say: Say) -> dict[str, Any]:
    """Folders of a pair: vlm, reference, roots (by prefix), and the task files that come with it.

    `placebo` lists the same items in other words, where the pair has them.

    Args:
        say: called with a stage's name and the share of it that is done.

    Raises:
        MixlabError: a name is neither a built-in pair nor a model folder, or the pair cannot be
            built.
    """
    return ask("mixlab.study.pairs:main", pair.model_dump(), say, "building the pair")


def _resolve_here(question: dict[str, Any], say: Say) -> dict[str, Any]:
    from mixlab.testbed import PAIRS

    pair = Pair.model_validate(question)
    folders: dict[str, Any] = {}
    for role, name in (("vlm", pair.vlm), ("reference", pair.reference)):
        if name not in PAIRS or Path(name).exists():
            _check_folder(role, name, list(PAIRS))
    for name in dict.fromkeys((pair.vlm, pair.reference)):
        if name in PAIRS and not Path(name).exists():
            folders[name] = PAIRS[name](progress=say)
    vlm = folders[pair.vlm].vlm if pair.vlm in folders else Path(pair.vlm)
    reference = (
        folders[pair.reference].reference if pair.reference in folders else Path(pair.reference)
    )
    roots: dict[str, str] = {}
    for name, folder in folders.items():
        roots[name.partition("-")[0]] = str(folder.path)
        roots[name] = str(folder.path)
    tasks = [str(p) for folder in folders.values() for p in sorted(folder.tasks.glob("*.yaml"))]
    placebo = [str(p) for f in folders.values() for p in sorted(f.tasks.glob("placebo/*.yaml"))]
    return {
        "vlm": str(vlm),
        "reference": str(reference),
        "roots": roots,
        "tasks": list(dict.fromkeys(tasks)),
        "placebo": list(dict.fromkeys(placebo)),
    }


def _check_folder(role: str, name: str, known: list[str]) -> None:
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise MixlabError(
                f"pair.{role}: {name} has no config.json; expected a Hugging Face model folder"
            )
    elif path.exists() or not _HUB_ID.fullmatch(name):
        raise MixlabError(
            f"pair.{role}: {name!r} is neither a model folder nor a built-in pair"
            + nearest(name, known)
        )


def main() -> None:
    """Resolve the pair that standard input names."""
    answer(_resolve_here)
