import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_batch import toy_batch

from mixlab.models import load_model
from mixlab.spec import MixlabError
from mixlab.train import ArmSettings, fit

SCRIPT = Path(__file__).parent / "killed_run.py"


def run(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_killed_and_started_again_equals_never_stopped(pair, tmp_path):
    killed = run(pair[1], tmp_path / "a", 7)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [p.name for p in (tmp_path / "a/checkpoints").iterdir()] == ["step-00000004"]
    resumed, whole = run(pair[1], tmp_path / "a"), run(pair[1], tmp_path / "b")
    assert resumed.returncode == 0, resumed.stderr
    # The last line holds the digest of all weights and the losses of all ten steps.
    assert resumed.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


def test_a_corrupt_checkpoint_and_one_of_other_parameters_are_refused(pair, tmp_path):
    settings = ArmSettings(steps=4, checkpoint_every=2)
    fit(load_model(pair[1]).model, toy_batch, settings, tmp_path, steps=4, seed=0)
    other = ArmSettings(steps=4, checkpoint_every=2, trainable=("projector",))
    with pytest.raises(MixlabError, match="of other parameters"):
        fit(load_model(pair[1]).model, toy_batch, other, tmp_path, steps=4, seed=0)
    file = tmp_path / "checkpoints/step-00000002/state.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(MixlabError, match=r"state\.safetensors.*truncated"):
        fit(load_model(pair[1]).model, toy_batch, settings, tmp_path, steps=4, seed=0)
