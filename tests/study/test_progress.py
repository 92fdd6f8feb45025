import io
from pathlib import Path

import pytest
from rich.console import Console

from mixlab.study.jobs import Job
from mixlab.study.progress import Display, Stages, duration


def job(run: str, stage: str = "fit") -> Job:
    return Job(run, stage, "text 25%, short", "baseline", seed=1)


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.4, "4 s"), (89, "89 s"), (600, "10 min"), (5700, "1 h 35 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_is_shown_and_logged(tmp_path: Path, terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    with Display(console, tmp_path / "log.txt", 1) as display:
        display.remaining({"fit": 2})
        display.started(job("a"))
        display.progressed(job("a"), {"step": 3, "steps": 10, "loss": 0.5})
        display.progressed(job("unknown"), {"step": 1})
        display.remaining({"fit": 1})
        display.ended(job("a"), "text 0.700")
    assert "1/2 jobs" in stream.getvalue()
    assert "train text 25%, short, seed 1 in 0 s (text 0.700)" in stream.getvalue()
    assert "start train text 25%, short, seed 1 [a]" in (tmp_path / "log.txt").read_text()


def test_time_left_uses_the_mean_of_each_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("mixlab.study.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with Display(Console(file=stream, width=100), tmp_path / "log.txt", 2) as display:
        for index, (stage, seconds) in enumerate([("fit", 100.0), ("confirm", 20.0)]):
            display.started(job(str(index), stage))
            now[0] += seconds
            # Two fits and three confirmations: (2 * 100 + 3 * 20) / 2 workers.
            display.remaining({"fit": 2, "confirm": 3})
            display.ended(job(str(index), stage))
    assert "130 s left" in stream.getvalue() or "2 min left" in stream.getvalue()


def test_stages_are_told_once_a_step() -> None:
    stream = io.StringIO()
    stages = Stages(Console(file=stream, width=100))
    for share in range(101):
        stages("reference", share / 100)
    assert stream.getvalue().count("\n") == 5
