"""Each model state's own best measurement protocol, chosen on dev."""

from __future__ import annotations

import numpy as np
import pandas as pd

STATE = ["run", "operator", "alpha", "construct"]


def own_best(scores: pd.DataFrame, declared: list[str] | None = None) -> pd.DataFrame:
    """Keep, for each model state and construct, the rows of its best protocol on dev.

    DESIGN's `best`: a gap between two bests is no artefact of one extractor. A state is (run,
    operator, alpha). For `format` the form is the skill, so the first declared protocol stands for
    every model. Without dev rows of its own a state takes the choice of its run, then of its arm,
    then the first declared one. Ties go to the protocol declared first. Permuted-image rows follow
    their model's choice.
    """
    present = [str(p) for p in scores["protocol"].dropna().unique()]
    order = [p for p in (declared or []) if p in present]
    order += [p for p in present if p not in order]
    if len(order) <= 1:
        return scores
    frame = scores.copy()
    frame["operator"] = frame["operator"].fillna("none") if "operator" in frame else "none"
    alpha = pd.to_numeric(frame["alpha"], errors="coerce") if "alpha" in frame else 1.0
    frame["_alpha"] = np.round(pd.Series(alpha, index=frame.index).fillna(1.0), 6)
    rank = {p: i for i, p in enumerate(order)}
    dev = frame.loc[(frame["split"] == "dev") & (frame["condition"] != "permuted")]
    frame["_rank"] = np.nan
    for key in (["run", "operator", "_alpha"], ["run"], ["arm"]):
        if key[0] not in frame.columns:
            continue
        by = [*key, "construct"]
        means = dev.groupby([*by, "protocol"])["score"].mean().reset_index()
        means["_order"] = means["protocol"].map(rank)
        means = means.sort_values(["score", "_order"], ascending=[False, True])
        best = means.drop_duplicates(by).rename(columns={"_order": "_best"})[[*by, "_best"]]
        found = frame.loc[:, by].merge(best, on=by, how="left")["_best"].to_numpy()
        frame["_rank"] = frame["_rank"].fillna(pd.Series(found, index=frame.index))
    frame.loc[frame["construct"] == "format", "_rank"] = 0
    frame["_rank"] = frame["_rank"].fillna(0)
    keep = frame["protocol"].map(rank) == frame["_rank"]
    seen = set(map(tuple, frame.loc[keep, ["run", "construct"]].drop_duplicates().to_numpy()))
    lost = ~pd.Series(
        [pair in seen for pair in zip(frame["run"], frame["construct"], strict=True)],
        index=frame.index,
    )
    first = frame["protocol"].map(rank) == frame["protocol"].map(rank).groupby(
        [frame["run"], frame["construct"]]
    ).transform("min")
    return scores.loc[keep | (lost & first)]
