"""The receipt: what was asked of a mix and what the plan holds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from mixlab.formats import FORMATS

from ._plan import Plan
from ._planning import requested_shares


def receipt(plan: Plan, run: str = "") -> tuple[pd.DataFrame, dict[str, Any]]:
    """Requested and realised, one line per (source, format), and the totals.

    Returns:
        The `receipts` table: run, source, modality, format, requested (share of all supervised
        tokens), realised_rows, realised_tokens, realised_supervised (counts), passes (rows drawn
        from the source, all formats together, over its number of rows), dropped (rows left
        out), reason, distinct_rows, realised_share (of all supervised tokens). Dropped rows have
        lines of their own, with nothing realised.

        Totals with the names of the `runs` table: text_fraction (requested),
        realised_text_supervised, realised_text_rows, realised_text_tokens (shares), formats (JSON;
        shares asked for, by modality where vision and text differ), realised_formats (JSON;
        shares of all supervised tokens), steps,
        supervised_tokens, rows, distinct_rows, total_tokens, plan (digest).
    """
    columns = plan.columns
    total = plan.supervised_tokens
    asked = requested_shares(plan.about)
    lines = []
    for number, source in enumerate(plan.sources):
        in_source = columns["source"] == number
        passes = int(in_source.sum()) / source["rows"]
        for code, fmt in enumerate(FORMATS):
            here = in_source & (columns["format"] == code)
            if not here.any() and (source["name"], fmt) not in asked:
                continue
            supervised = int(columns["supervised"][here].sum())
            lines.append(
                {
                    "run": run,
                    "source": source["name"],
                    "modality": source["modality"],
                    "format": fmt,
                    "requested": asked.get((source["name"], fmt), 0.0),
                    "realised_rows": int(here.sum()),
                    "realised_tokens": int(columns["tokens"][here].sum()),
                    "realised_supervised": supervised,
                    "passes": passes,
                    "dropped": 0,
                    "reason": "",
                    "distinct_rows": len(np.unique(columns["row"][here])),
                    "realised_share": supervised / total,
                }
            )
    return pd.DataFrame([*lines, *_dropped(plan, run)]), _totals(plan)


def _dropped(plan: Plan, run: str) -> list[dict[str, Any]]:
    modality = {source["name"]: source["modality"] for source in plan.sources}
    counts: dict[tuple[str, str, str], int] = {}
    for name, _, fmt, reason in plan.about["dropped"]:
        counts[name, fmt, reason] = counts.get((name, fmt, reason), 0) + 1
    return [
        {
            "run": run,
            "source": name,
            "modality": modality[name],
            "format": fmt,
            "requested": 0.0,
            "realised_rows": 0,
            "realised_tokens": 0,
            "realised_supervised": 0,
            "passes": 0.0,
            "dropped": count,
            "reason": reason,
            "distinct_rows": 0,
            "realised_share": 0.0,
        }
        for (name, fmt, reason), count in sorted(counts.items())
    ]


def _totals(plan: Plan) -> dict[str, Any]:
    columns, text = plan.columns, plan.modalities()
    total, mix = plan.supervised_tokens, plan.about["mix"]
    pairs = np.stack([columns["source"].astype(np.int64), columns["row"]], axis=1)
    realised = {
        fmt: round(int(columns["supervised"][columns["format"] == code].sum()) / total, 6)
        for code, fmt in enumerate(FORMATS)
        if (columns["format"] == code).any()
    }
    return {
        "text_fraction": mix["text_fraction"],
        "formats": json.dumps(_asked(mix), sort_keys=True),
        "realised_text_supervised": int(columns["supervised"][text].sum()) / total,
        "realised_text_rows": float(text.mean()),
        "realised_text_tokens": int(columns["tokens"][text].sum()) / int(columns["tokens"].sum()),
        "realised_formats": json.dumps(realised, sort_keys=True),
        "steps": plan.steps,
        "supervised_tokens": total,
        "rows": len(plan),
        "distinct_rows": len(np.unique(pairs, axis=0)),
        "total_tokens": int(columns["tokens"].sum()),
        "plan": plan.digest,
    }


def _asked(mix: dict[str, Any]) -> dict[str, Any]:
    """Format shares of the modalities that the mix has, as one table where they agree."""
    shares = {"vision": 1.0 - mix["text_fraction"], "text": mix["text_fraction"]}
    tables = {name: mix["formats"][name] for name, share in shares.items() if share > 0}
    first, *rest = tables.values()
    return first if all(table == first for table in rest) else tables
