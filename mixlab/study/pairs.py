"""From the names in `pair:` to folders; built-in pairs are built in a process of their own.

Of their own, because building needs torch and much memory, and the coordinator should stay small
for the hours after it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mixlab import MixlabError
from mixlab.study.sweepfile import Pair
from mixlab.study.worker import Channel, die_with_parent

Say = Callable[[str, float], None]


def resolve(pair: Pair, say: Say) -> dict[str, Any]:
    """Folders of a pair: vlm, reference, roots (by prefix), and the task files that come with it.

    `placebo` lists the same items in other words, where the pair has them.

    Args:
        say: called with a stage's name and the share of it that is done.

    Raises:
        MixlabError: the pair cannot be built, or its two models do not fit together.
    """
    environment = dict(os.environ) | {"MIXLAB_PARENT": str(os.getpid())}
    process = subprocess.Popen(
        [sys.executable, "-c", "from mixlab.study.pairs import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(pair.model_dump_json() + "\n")
        process.stdin.flush()
        for line in process.stdout:
            body = json.loads(line)
            if body["kind"] == "progress":
                say(body["stage"], body["share"])
            elif body["kind"] == "failed":
                raise MixlabError(body["message"])
            else:
                found: dict[str, Any] = body["found"]
                return found
        raise MixlabError(
            f"building the pair ended with code {process.wait()} and no word; is memory short?"
        )
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _resolve_here(pair: Pair, say: Say) -> dict[str, Any]:
    from mixlab.testbed import PAIRS

    folders: dict[str, Any] = {}
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


def main() -> None:
    """Resolve the pair that standard input names; say so on standard output."""
    die_with_parent()
    channel = Channel(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)
    pair = Pair.model_validate_json(sys.stdin.readline())

    def say(stage: str, share: float) -> None:
        channel.progress(stage=stage, share=share)

    try:
        found = _resolve_here(pair, say)
    except MixlabError as error:
        channel.say("failed", message=str(error))
    else:
        channel.say("found", found=found)
