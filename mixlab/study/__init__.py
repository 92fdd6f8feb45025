"""Studies: a sweep file in, trained and scored runs, tables and a report out. Imports no torch."""

from mixlab.study.jobs import Executor, Job, Outcome
from mixlab.study.progress import Stages
from mixlab.study.single import long_arm, show_mix
from mixlab.study.sweep import SweepResult, run_sweep, summary
from mixlab.study.sweepfile import SweepSpec, load_sweep

__all__ = [
    "Executor",
    "Job",
    "Outcome",
    "Stages",
    "SweepResult",
    "SweepSpec",
    "load_sweep",
    "long_arm",
    "run_sweep",
    "show_mix",
    "summary",
]
