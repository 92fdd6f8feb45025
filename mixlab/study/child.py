"""Work in a process of its own, for answers that need torch.

The coordinator stays small for the hours after it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from mixlab import MixlabError
from mixlab.study.worker import Channel, die_with_parent

Say = Callable[[str, float], None]


def ask(entry: str, question: dict[str, Any], say: Say, what: str) -> dict[str, Any]:
    """What `module:function` answers to `question` in a new process; all are JSON values.

    The function calls `answer`.

    Args:
        say: called with a stage's name and the share of it that is done.
        what: is done there, for the message of a process that dies.

    Raises:
        MixlabError: as the function did, or its process died.
    """
    module, _, function = entry.partition(":")
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {module} import {function}; {function}()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ) | {"MIXLAB_PARENT": str(os.getpid())},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(question) + "\n")
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
        raise MixlabError(f"{what} ended with code {process.wait()} and no word; is memory short?")
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def answer(function: Callable[[dict[str, Any], Say], dict[str, Any]]) -> None:
    """Serve the question on standard input with `function`; the answer goes to standard output."""
    die_with_parent()
    channel = Channel(os.fdopen(os.dup(1), "w", buffering=1))
    os.dup2(2, 1)
    question = json.loads(sys.stdin.readline())

    def say(stage: str, share: float) -> None:
        channel.progress(stage=stage, share=share)

    try:
        found = function(question, say)
    except MixlabError as error:
        channel.say("failed", message=str(error))
    else:
        channel.say("found", found=found)
