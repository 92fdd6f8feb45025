"""kill -9 at random moments: nothing finished is lost, repeated or counted twice."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.study.conftest import Sweeps


def kill_until_done(sweeps: Sweeps, name: str, workers: int, seed: int, kills: int) -> int:
    """Start, kill after a random time, start again, ...; the number of kills that hit."""
    chance, hits = random.Random(seed), 0
    while True:
        # About five seconds of work for any number of workers, so that several kills hit.
        process = sweeps.start(name, workers, sleep=0.2 * workers)
        try:
            process.wait(chance.uniform(0.2, 2.5) if hits < kills else 120)
        except subprocess.TimeoutExpired:
            hits += 1
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            continue
        assert process.stdout is not None
        assert process.returncode == 0, process.stdout.read().decode()
        return hits


def check(sweeps: Sweeps, workers: int, seed: int, kills: int) -> None:
    sweeps.run("whole", arguments={"sleep": 0.0})
    assert kill_until_done(sweeps, "broken", workers, seed, kills) >= min(kills, 3)
    assert sweeps.result("broken") == sweeps.result("whole")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_sweep_ends_as_an_unbroken_one(sweeps: Sweeps, workers: int) -> None:
    check(sweeps, workers, seed=workers, kills=5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("workers", [1, 4])
def test_many_kills(sweeps: Sweeps, workers: int, seed: int) -> None:
    check(sweeps, workers, seed=100 + seed, kills=20)


def test_workers_die_with_the_coordinator(sweeps: Sweeps, tmp_path: Path) -> None:
    process = sweeps.start("study", 2, sleep=5.0)
    parent = psutil.Process(process.pid)
    deadline = time.monotonic() + 90
    while len(parent.children()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    children = parent.children()
    assert len(children) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    gone, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
    assert len(gone) == 2


def test_ctrl_c_says_what_is_kept(sweeps: Sweeps) -> None:
    process = sweeps.start("study", 1, sleep=5.0)
    deadline = time.monotonic() + 90
    while not (sweeps.folder / "study" / "log.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0].decode()
    assert "stopped: 0 of 13 runs are done and kept" in output
