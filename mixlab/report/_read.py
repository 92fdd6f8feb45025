"""A study folder as the page needs it: tables and study.json, nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mixlab import MixlabError
from mixlab.attribute import add_unit, check, own_best
from mixlab.store import Tables

UNUSED = ("response", "kind", "format", "step", "modality", "weights", "status", "seed")
FEW = ("run", "construct", "split", "role", "condition", "protocol", "operator", "cluster")


@dataclass(frozen=True)
class Study:
    """What was read. `scores` holds every protocol, `best` each model state's own best one."""

    folder: Path
    info: dict[str, Any]
    scores: pd.DataFrame
    best: pd.DataFrame
    runs: pd.DataFrame
    receipts: pd.DataFrame
    trials: pd.DataFrame

    @property
    def name(self) -> str:
        """The study's name, or its folder's."""
        return str(self.info.get("name") or self.spec.get("name") or self.folder.name)

    @property
    def spec(self) -> dict[str, Any]:
        """The sweep file as it was run."""
        spec = self.info.get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def margin(self) -> float:
        """Equivalence margin in points; 3 unless the sweep file says otherwise."""
        return float(self.spec.get("margin", 3.0))

    @property
    def protocols(self) -> list[str]:
        """Protocols in the order in which the sweep file declares them."""
        listed = self.spec.get("protocols") or []
        return [str(p if isinstance(p, str) else p.get("name", p)) for p in listed]


def read_study(folder: str | Path) -> Study:
    """Read a study folder. Raises `MixlabError` when it is none, or has no scores yet."""
    folder = Path(folder)
    marker = folder / "study.json"
    if not marker.is_file():
        raise MixlabError(
            f"{folder} is no study folder: it has no study.json. Give the folder that `mixlab "
            "sweep` "
            "wrote (studies/NAME)."
        )
    try:
        info = json.loads(marker.read_text(encoding="utf-8"))
    except ValueError as error:
        raise MixlabError(f"{marker} is no JSON ({error}); run the sweep again") from error
    tables = Tables(folder / "tables")
    scores, runs = tables.read("scores"), tables.read("runs")
    if scores.empty or runs.empty:
        raise MixlabError(
            f"{folder} has no scores yet; start the sweep again, it goes on where it was"
        )
    scores = check(scores).drop(columns=[c for c in UNUSED if c in scores.columns])
    scores = scores.assign(
        operator=scores["operator"].fillna("none"), role=scores["role"].fillna("")
    )
    scores = add_unit(scores)
    runs = runs.drop_duplicates("run", keep="last")
    study = Study(
        folder, info, scores, scores, runs, tables.read("receipts"), tables.read("trials")
    )
    best = own_best(scores, study.protocols)
    scores, best = (t.astype(dict.fromkeys(FEW, "category")) for t in (scores, best))
    return Study(folder, info, scores, best, runs, study.receipts, study.trials)
