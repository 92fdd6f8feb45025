"""Realised shares of text and of output formats, from receipts and runs."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mixlab.attribute import Recipe


@dataclass(frozen=True)
class Shares:
    """Realised shares of one recipe, mean over its seeds, 0 to 1 (NaN: not recorded)."""

    requested: float
    supervised: float
    rows: float
    tokens: float
    formats: dict[str, float]
    supervised_tokens: float


def parse_formats(value: object) -> dict[str, float]:
    """Format shares from a JSON cell, {format: share} or {modality: {format: share}}."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    parts = [v for v in found.values() if isinstance(v, dict)]
    if not parts:
        return {str(k): float(v) for k, v in found.items() if isinstance(v, int | float)}
    names = sorted({str(k) for part in parts for k in part})
    return {k: float(np.mean([part.get(k, 0.0) for part in parts])) for k in names}


def _number(row: pd.DataFrame, column: str) -> float:
    if column not in row.columns:
        return float("nan")
    return float(pd.to_numeric(row[column], errors="coerce").mean())


def shares_of(recipe: Recipe, runs: pd.DataFrame, receipts: pd.DataFrame) -> Shares:
    """Realised shares; format shares are of supervised tokens over all rows, by the receipts."""
    mine = runs.loc[runs["run"].isin(recipe.runs)]
    formats: dict[str, float] = {}
    if not receipts.empty:
        part = receipts.loc[receipts["run"].isin(recipe.runs)]
        by = part.groupby("format")["realised_supervised"].sum()
        if float(by.sum()) > 0:
            formats = {str(k): float(v) for k, v in (by / by.sum()).items() if v > 0}
    if not formats and "realised_formats" in mine.columns and len(mine):
        formats = parse_formats(mine.iloc[0]["realised_formats"])
    return Shares(
        _number(mine, "text_fraction"),
        _number(mine, "realised_text_supervised"),
        _number(mine, "realised_text_rows"),
        _number(mine, "realised_text_tokens"),
        formats,
        _number(mine, "supervised_tokens"),
    )
