"""Sweeps of the cheap arm, in this process and in one that can be killed."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mixlab.store import Tables
from mixlab.study import SweepResult, run_sweep

ROOT = Path(__file__).parents[2]
SWEEP = """\
name: cheap
pair: {vlm: testbed, reference: testbed}
arm:
  steps: 3
parameters:
  mix.text_fraction: {distribution: uniform, min: 0.0, max: 0.6}
  mix.formats: {distribution: simplex, values: [short, letter, json]}
baselines:
  - {mix.text_fraction: 0.0, mix.formats: {short: 1.0}}
  - {mix.text_fraction: 0.25, mix.formats: {short: 1.0}}
  - {mix.text_fraction: 0.5, mix.formats: {short: 1.0}, seeds: [0]}
dilution: [0.25]
twins: {text: true, seeds: [0]}
seeds: [0, 1]
trials: 5
generation: 2
"""
RUN = """
import json, signal, sys
from mixlab.study import run_sweep
# A shell that starts the tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
file, out, workers, arguments = sys.argv[1:]
executor = {"make": "tests.study.cheap:make", "arguments": json.loads(arguments)}
run_sweep(file, out=out, workers=int(workers), executor=executor, report=False)
"""


class Sweeps:
    """Writes the sweep file, starts it, and reads what a study ended with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = ""

    def file(self, text: str = SWEEP) -> Path:
        path = self.folder / "cheap.yaml"
        path.write_text(text)
        return path

    def run(self, name: str = "study", text: str = SWEEP, **keywords: Any) -> SweepResult:
        arguments = keywords.pop("arguments", {})
        stream = io.StringIO()
        try:
            return run_sweep(
                self.file(text),
                out=keywords.pop("out", self.folder / name),
                executor={"make": "tests.study.cheap:make", "arguments": arguments},
                report=False,
                console=Console(file=stream, width=200),
                **keywords,
            )
        finally:
            self.text = stream.getvalue()

    def start(self, name: str, workers: int = 1, **arguments: Any) -> "subprocess.Popen[bytes]":
        """The sweep in a process of its own."""
        command = [sys.executable, "-c", RUN, str(self.file()), str(self.folder / name)]
        return subprocess.Popen(
            [*command, str(workers), json.dumps(arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def result(self, name: str = "study") -> dict[str, Any]:
        """All that a study found, without times."""
        folder = self.folder / name
        tables = Tables(folder / "tables")
        found: dict[str, Any] = {t: tables.read(t).to_dict("records") for t in tables.names()}
        found["keys"] = {table: tables.keys(table) for table in tables.names()}
        for path in sorted(folder.glob("runs/**/done.json")):
            info = json.loads(path.read_text())
            info.pop("seconds")
            found[str(path.relative_to(folder))] = info
        return found


@pytest.fixture
def sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    monkeypatch.chdir(ROOT)
    return Sweeps(tmp_path)
