"""From the study's `scores` to one table of items by runs; whatever does not pair is an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mixlab import MixlabError

TEXT = ("knowledge", "procedure", "format")
ASIDE = ("never_taught", "refresh")
NEEDED = ("run", "construct", "task", "item", "cluster", "split", "role", "condition", "protocol")


class UnpairedError(MixlabError):
    """Scores that cannot be compared; the message says what was found and how to mend it."""


@dataclass(frozen=True)
class Line:
    """One question asked of every run: a construct, or the part of it with the given roles."""

    key: str
    construct: str
    roles: tuple[str, ...]
    label: str

    @property
    def is_text(self) -> bool:
        """True for skills that the text reference can have."""
        return self.construct in TEXT


LABELS = {
    "knowledge": "Knowledge",
    "procedure": "Procedure",
    "format": "Format",
    "vision": "Vision",
    "control": "Negative control",
}


def lines(scores: pd.DataFrame) -> list[Line]:
    """The lines of a study in reading order: rehearsed and unrehearsed items of a construct apart.

    `tested` items stood in no arm's text rows, so they are the unrehearsed ones. `never_taught`
    and `refresh` items are left out: the reference never knew the first, operators train on the
    second.
    """
    found: list[Line] = []
    pairs = scores.loc[:, ["construct", "role"]].drop_duplicates().astype(object)
    names = [str(c) for c in pairs["construct"].unique()]
    order = [c for c in LABELS if c in names] + sorted(c for c in names if c not in LABELS)
    for construct in order:
        roles = {str(r) for r in pairs.loc[pairs["construct"] == construct, "role"].fillna("")}
        label = LABELS.get(construct, construct)
        if {"rehearsed", "tested"} <= roles:
            found.append(
                Line(f"{construct}/tested", construct, ("tested",), f"{label}, unrehearsed")
            )
            found.append(
                Line(f"{construct}/rehearsed", construct, ("rehearsed",), f"{label}, rehearsed")
            )
            continue
        kept = tuple(sorted(roles - set(ASIDE))) or tuple(sorted(roles))
        found.append(Line(construct, construct, kept, label))
    return found


def text_lines(found: Iterable[Line]) -> list[Line]:
    """The lines that make up the text score: each text construct once, by its unrehearsed items."""
    return [line for line in found if line.is_text and not line.key.endswith("/rehearsed")]


def check(scores: pd.DataFrame) -> pd.DataFrame:
    """The same table, or an error that names the first offending rows.

    Raises on missing columns, missing or non-finite scores and scores outside [0, 1].
    """
    missing = [c for c in (*NEEDED, "score") if c not in scores.columns]
    if missing:
        raise UnpairedError(f"the scores table lacks the columns {missing}")
    value = pd.to_numeric(scores["score"], errors="coerce").to_numpy(dtype=float)
    bad = ~np.isfinite(value) | (value < 0) | (value > 1)
    if bad.any():
        rows = scores.loc[bad, ["run", "task", "item", "score"]].head(3).to_dict("records")
        raise UnpairedError(
            f"{int(bad.sum())} scores are not numbers in [0, 1], for example {rows}; "
            "score these runs again"
        )
    return scores


def rows_of(
    scores: pd.DataFrame,
    line: Line,
    *,
    split: str = "test",
    operator: str | None = "none",
    alpha: float | None = None,
    permuted: bool = False,
) -> pd.DataFrame:
    """Rows of one line under one state of the models; operator None takes every operator."""
    keep = (scores["construct"] == line.construct) & (scores["split"] == split)
    keep &= scores["role"].isin(line.roles) | (scores["role"].isna() & ("" in line.roles))
    if operator is not None and "operator" in scores.columns:
        keep &= (scores["operator"] == operator) | (
            scores["operator"].isna() & (operator == "none")
        )
    if alpha is not None:
        keep &= np.isclose(scores["alpha"].astype(float), alpha)
    if line.construct == "vision":
        keep &= scores["condition"] == ("permuted" if permuted else "image")
    else:
        keep &= scores["condition"] != "permuted"
    return scores.loc[keep]


@dataclass(frozen=True)
class Paired:
    """Scores [items, runs] of one line with the cluster of each item; no cell is missing."""

    line: Line
    table: pd.DataFrame
    clusters: pd.Series

    def column(self, run: str) -> np.ndarray:
        """The scores of one run, float [items], in the table's item order."""
        return self.table[run].to_numpy(dtype=float)


def pair_items(rows: pd.DataFrame, line: Line, runs: Sequence[str]) -> Paired:
    """Items by runs. Raises when an item is missing from a run or stands there twice."""
    rows = rows.loc[rows["run"].isin(list(runs))]
    column = pd.Index(list(runs)).get_indexer(pd.Index(rows["run"].astype(object)))
    key, items = pd.factorize(_keys(rows))
    cell = key * len(runs) + column
    count = np.bincount(cell, minlength=len(items) * len(runs)).reshape(len(items), len(runs))
    if (count > 1).any():
        twice = rows.loc[count.reshape(-1)[cell] > 1]
        first = twice[["run", "task", "item", "protocol"]].astype(str).head(4).to_dict("records")
        raise UnpairedError(
            f"{line.label}: {len(twice)} rows score an item of a run more than once, for example "
            f"{first}; keep one protocol and one step a run"
        )
    absent = [run for run, n in zip(runs, count.sum(axis=0), strict=True) if n == 0]
    if absent:
        raise UnpairedError(f"{line.label}: no scores for the runs {absent}; score them first")
    index = pd.Index(items, dtype=object)
    if (count == 0).any():
        named = [
            f"{run}: {', '.join(item_name(index[k]) for k in np.flatnonzero(count[:, j] == 0)[:5])}"
            f" ({int((count[:, j] == 0).sum())} in all)"
            for j, run in enumerate(runs)
            if (count[:, j] == 0).any()
        ]
        raise UnpairedError(
            f"{line.label}: runs were not scored on the same items, so they cannot be compared. "
            f"Missing items, by run: {'; '.join(named)}. Score the runs on the same item files."
        )
    values = np.empty((len(items), len(runs)))
    values[key, column] = rows["score"].to_numpy(dtype=float)
    clusters = np.empty(len(items), dtype=object)
    clusters[key] = rows["cluster"].astype(object).to_numpy()
    order = np.argsort(np.asarray(items, dtype=str), kind="stable")
    table = pd.DataFrame(values[order], index=index[order], columns=list(runs))
    return Paired(line, table, pd.Series(clusters[order], index=table.index))


def add_unit(scores: pd.DataFrame) -> pd.DataFrame:
    """The same table with a column `unit` (task and item joined), which makes pairing quicker."""
    return scores.assign(unit=pd.Categorical(_keys(scores)))


def item_name(unit: str) -> str:
    """The item of a unit."""
    return unit.partition("\0")[2]


def _keys(rows: pd.DataFrame) -> np.ndarray:
    """One string an item: task and item joined by a null character."""
    if "unit" in rows.columns:
        return rows["unit"].astype(object).to_numpy()
    task, item = rows["task"].astype(str), rows["item"].astype(str)
    return (task + "\0" + item).to_numpy(dtype=object)
