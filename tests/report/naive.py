"""The page's numbers computed again from the tables, the long way round and without the package."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats


class Naive:
    """Recomputes any keyed number of a planted study's page."""

    def __init__(self, folder: Path) -> None:
        read = {p.name: pd.read_parquet(p) for p in (folder / "tables").iterdir()}
        self.scores = read["scores"][read["scores"]["protocol"] == "strict"]
        self.runs = read["runs"]
        self.receipts = read["receipts"]

    def runs_of(self, recipe: str) -> list[str]:
        mine = self.runs[self.runs["recipe"] == recipe].sort_values("seed")
        return list(mine["run"])

    @cached_property
    def means(self) -> pd.Series:
        """Mean score by everything that names a state."""
        t = self.scores.assign(alpha=self.scores["alpha"].fillna(1.0))
        by = ["run", "operator", "alpha", "split", "construct", "role", "condition"]
        return t.groupby(by)["score"].mean()

    def mean(self, run, line, *, operator="none", alpha=1.0, split="test", permuted=False):
        if line == "text":
            keys = ("knowledge/tested", "procedure", "format")
            state = {"operator": operator, "alpha": alpha, "split": split}
            return float(np.mean([self.mean(run, k, **state) for k in keys]))
        construct, _, role = line.partition("/")
        condition = "none"
        if construct == "vision":
            condition = "permuted" if permuted else "image"
        return float(self.means[(run, operator, alpha, split, construct, role, condition)])

    def seeds(self, values: list[float], part: str) -> float:
        x = np.array(values)
        n = len(x)
        se = stats.sem(x)
        if se < 1e-12 and part != "estimate":
            return math.nan
        t = stats.t.ppf(0.975, n - 1)
        return {
            "estimate": x.mean(),
            "low": x.mean() - t * se,
            "high": x.mean() + t * se,
            "detectable": (t + stats.t.ppf(0.8, n - 1)) * se,
        }[part]

    def number(self, key: str) -> float:
        """The value behind a key; NaN for bounds over items (one seed, or seeds that agree)."""
        kind, *rest = key.split("|")
        return getattr(self, f"_{kind}")(*rest)

    def _share(self, recipe: str) -> float:
        mine = self.runs[self.runs["recipe"] == recipe]
        return 100 * float(mine["realised_text_supervised"].mean())

    def _loss(self, recipe: str, line: str, part: str) -> float:
        base = self.mean("reference", line)
        lost = [100 * (base - self.mean(r, line)) for r in self.runs_of(recipe)]
        if len(lost) == 1:
            return lost[0] if part == "estimate" else math.nan
        return self.seeds(lost, part)

    def _contrast(self, first: str, second: str, line: str, part: str) -> float:
        pairs = zip(self.runs_of(first), self.runs_of(second), strict=False)
        return self.seeds([100 * (self.mean(a, line) - self.mean(b, line)) for a, b in pairs], part)

    def _floor(self, recipe: str, part: str) -> float:
        runs = self.runs_of(recipe)
        seen = [self.mean(r, "vision") - self.mean(r, "vision", permuted=True) for r in runs]
        return self.seeds([100 * x for x in seen], part)

    def curve(self, run: str, split: str) -> dict[float, tuple[float, float]]:
        """alpha: (R, V)."""
        s0, s1 = self.mean("reference", "text", split=split), self.mean(run, "text", split=split)
        v1 = self.mean(run, "vision", split=split)
        floor = self.mean(run, "vision", split=split, permuted=True)
        out = {}
        for a in (0.0, 0.25, 0.5, 0.75, 1.0):
            state = {"operator": "merge", "alpha": a, "split": split}
            r = (self.mean(run, "text", **state) - s1) / (s0 - s1)
            out[a] = (r, (self.mean(run, "vision", **state) - floor) / (v1 - floor))
        return out

    def _joint(self, recipe: str, what: str, part: str = "estimate") -> float:
        names = ("J", "J0", "excess", "text_back", "vision_cost")
        found: dict[str, list[float]] = {name: [] for name in names}
        for run in self.runs_of(recipe):
            dev, test = self.curve(run, "dev"), self.curve(run, "test")
            alpha = max(dev, key=lambda a: min(*dev[a], 1))
            j, j0 = min(*test[alpha], 1), 1 / (2 - min(max(test[0.0][1], 0), 1))
            at = {"operator": "merge", "alpha": alpha}
            found["J"].append(j)
            found["J0"].append(j0)
            found["excess"].append(j - j0)
            found["text_back"].append(100 * (self.mean(run, "text", **at) - self.mean(run, "text")))
            found["vision_cost"].append(
                100 * (self.mean(run, "vision") - self.mean(run, "vision", **at))
            )
        return self.seeds(found[what], part)

    def _format(self, fmt: str, line: str, part: str) -> float:
        arms = self.runs[self.runs["kind"].isin(["baseline", "trial"])]
        x, y = [], []
        names = ["short", "letter", "sentence", "json"]
        for _, mine in arms.groupby("recipe"):
            got = self.receipts[self.receipts["run"].isin(mine["run"])]
            share = got.groupby("format")["realised_supervised"].sum()
            share = (share / share.sum()).to_dict()
            text = float(mine["realised_text_supervised"].mean())
            x.append([1, text, *[share.get(k, 0.0) for k in names[1:]]])
            y.append(100 * np.mean([self.mean(r, line) for r in mine["run"]]))
        a, b = np.array(x), np.array(y)
        inverse = np.linalg.inv(a.T @ a)
        beta = inverse @ a.T @ b
        lever = np.einsum("ij,jk,ik->i", a, inverse, a)
        u = (b - a @ beta) / (1 - lever)
        se = np.sqrt(np.diag(inverse @ (a.T * u**2) @ a @ inverse))
        k = 1 + names.index(fmt)
        df = len(b) - a.shape[1]
        t = stats.t.ppf(0.975, df)
        return {
            "estimate": beta[k] / 10,
            "low": (beta[k] - t * se[k]) / 10,
            "high": (beta[k] + t * se[k]) / 10,
            "detectable": (t + stats.t.ppf(0.8, df)) * se[k] / 10,
        }[part]
