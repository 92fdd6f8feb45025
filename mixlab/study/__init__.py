"""Studies: a sweep file in, trained and scored runs, tables and a report out. Imports no torch."""

from mixlab.study.jobs import Executor, Job, Outcome
from mixlab.study.sweep import SweepResult, run_sweep
from mixlab.study.sweepfile import SweepSpec, load_sweep

__all__ = [
    "Executor",
    "Job",
    "Outcome",
    "SweepResult",
    "SweepSpec",
    "load_sweep",
    "run_sweep",
]
