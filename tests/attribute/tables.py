"""Small score tables with known truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from mixlab.attribute import Line, Recipe

SKILL = Line("procedure", "procedure", ("",), "Procedure")
SIGHT = Line("vision", "vision", ("",), "Vision")


def rows(
    run: str,
    values: Sequence[float] | np.ndarray,
    *,
    construct: str = "procedure",
    split: str = "test",
    condition: str | None = None,
    operator: str = "none",
    alpha: float = np.nan,
    protocol: str = "strict",
    per_cluster: int = 1,
    role: str = "",
    arm: str | None = None,
) -> pd.DataFrame:
    """Scores of one run on items i0, i1, ...; `per_cluster` neighbours share a cluster."""
    n = len(values)
    return pd.DataFrame(
        {
            "run": run,
            "arm": arm or run,
            "construct": construct,
            "task": construct,
            "item": [f"i{i}" for i in range(n)],
            "cluster": [f"c{i // per_cluster}" for i in range(n)],
            "split": split,
            "role": role,
            "condition": condition or ("image" if construct == "vision" else "none"),
            "protocol": protocol,
            "operator": operator,
            "alpha": alpha,
            "score": np.asarray(values, dtype=float),
        }
    )


def share(n: int, right: float) -> np.ndarray:
    """`n` items of which the first `right * n` are right."""
    return (np.arange(n) < round(right * n)).astype(float)


def recipe(name: str, seeds: Sequence[int], kind: str = "baseline") -> Recipe:
    """A recipe whose runs are called name-seed."""
    return Recipe(name, name, kind, tuple(f"{name}-{s}" for s in seeds), tuple(seeds))


def chord(
    recovery: Mapping[float, float],
    retention: Mapping[float, float],
    *,
    reference: float = 1.0,
    tuned: float = 0.5,
    sight: float = 0.8,
    floor: float = 0.2,
    n: int = 400,
    seeds: Sequence[int] = (0, 1, 2),
) -> pd.DataFrame:
    """Merge rows whose R(alpha) and V(alpha) are exactly as given, on dev and on test."""
    frames = []
    for split in ("dev", "test"):
        fixed = {"split": split, "per_cluster": 2}
        frames.append(rows("reference", share(n, reference), **fixed))
        for s in seeds:
            run = f"arm-{s}"
            frames.append(rows(run, share(n, tuned), **fixed))
            frames.append(rows(run, share(n, sight), construct="vision", **fixed))
            frames.append(
                rows(run, share(n, floor), construct="vision", condition="permuted", **fixed)
            )
            for a, r in recovery.items():
                text = tuned + r * (reference - tuned)
                seen = floor + retention[a] * (sight - floor)
                state = {**fixed, "operator": "merge", "alpha": a}
                frames.append(rows(run, share(n, text), **state))
                frames.append(rows(run, share(n, seen), construct="vision", **state))
    return pd.concat(frames, ignore_index=True)
