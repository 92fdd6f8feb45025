"""A cheap arm for the tests: no torch, milliseconds, and it writes what a run writes."""

import hashlib
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from mixlab import MixlabError
from mixlab.spec import Fraction, Located, Settings, Shares, parse
from mixlab.study.jobs import CONFIRM, FIT, Job, Outcome, Progress
from mixlab.study.recipes import Arm


class CheapMix(Settings):
    text_fraction: Fraction = 0.0
    formats: Shares = Field(default={"short": 1.0})


class CheapArm(Settings):
    mix: CheapMix = CheapMix()
    steps: int = Field(default=3, ge=1)
    vision_scale: float = 1.0


def noise(*parts: Any) -> float:
    text = repr(parts).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big") / 2**48


class CheapExecutor:
    def __init__(self, sleep: float = 0.0, trouble: str = "", ledger: str = "") -> None:
        self.sleep, self.trouble, self.ledger = sleep, trouble, ledger

    def prepare(self, say: Callable[[str, float], None]) -> dict[str, Any]:
        say("nothing", 1.0)
        return {}

    def identity(self) -> dict[str, Any]:
        return {"weights": "cheap"}

    def recipe(self, settings: Located) -> dict[str, Any]:
        return parse(CheapArm, settings).model_dump(mode="json")

    def preflight(self, arms: Sequence[Arm], say: Callable[[str, float], None]) -> None:
        say("nothing", 1.0)
        if self.trouble == "preflight":
            raise MixlabError("the image images/7.png is truncated")

    def untrained(self) -> list[str]:
        return ["reference", "start"]

    def bytes_needed(self, runs: int) -> int:
        return 1000 * runs

    def execute(self, job: Job, folder: Path, progress: Progress) -> Outcome:
        import pandas as pd

        if self.ledger:
            with Path(self.ledger).open("a") as handle:
                handle.write(f"{job.key} {job.trial}\n")
        mix = job.settings.get("mix", {})
        fraction = float(mix.get("text_fraction", 0.0))
        if self.trouble == "raise" and fraction == 0.25:
            raise MixlabError("the image images/7.png is truncated")
        if self.trouble == "crash" and fraction == 0.25:
            raise RuntimeError("boom")
        once = folder / "died"
        if self.trouble == "die" and fraction == 0.25 and not once.exists():
            once.touch()
            os.kill(os.getpid(), 9)
        for step in range(job.settings.get("steps", 1)):
            time.sleep(self.sleep)
            progress(step=step + 1, steps=job.settings.get("steps", 1), loss=1.0 / (step + 1))
        text = 0.5 + 0.4 * math.sqrt(fraction) + 0.01 * noise(job.run)
        vision = 0.9 - 0.5 * fraction**2 + 0.01 * noise(job.run, "v")
        if self.trouble == "nan" and job.kind == "trial" and job.trial % 2:
            text = math.nan
        rows = [{"run": job.run, "arm": job.arm, "construct": c, "score": text} for c in "kpf"]
        tables = {"scores": pd.DataFrame(rows)}
        if job.stage == FIT:
            runs = {"run": job.run, "arm": job.arm, "kind": job.kind, "trial": job.trial}
            tables["runs"] = pd.DataFrame([runs | {"seed": job.seed, "recipe": job.recipe}])
        objectives = {"text": text, "vision": vision} if job.stage == FIT else {}
        if job.stage == CONFIRM and not (folder / "done.json").exists():
            raise AssertionError("confirmed before it was fitted")
        return Outcome(tables, objectives, {"confirmed": job.stage == CONFIRM})


def make(**arguments: Any) -> CheapExecutor:
    return CheapExecutor(**arguments)
