"""Train in a process of its own; with a third argument, die by SIGKILL after that step."""

import os
import signal
import sys

import torch
from tiny_batch import toy_batch

from mixlab.models import load_model
from mixlab.train import ArmSettings, fit

torch.set_num_threads(1)
start, folder = sys.argv[1:3]
die = int(sys.argv[3]) if len(sys.argv) > 3 else -1


def progress(step: int, steps: int, loss: float) -> None:
    if step == die:
        os.kill(os.getpid(), signal.SIGKILL)


loaded = load_model(start)
settings = ArmSettings(steps=10, learning_rate=1e-2, checkpoint_every=4)
curve = fit(loaded.model, toy_batch, settings, folder, steps=10, seed=1, progress=progress)
print(loaded.weights_digest(), [row["loss"] for row in curve])
