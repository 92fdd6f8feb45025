"""A plan in words and tables, for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mixlab.formats import FORMATS

from ._plan import Plan
from ._receipt import receipt
from ._source import Source


def describe(plan: Plan, sources: Sequence[Source], *, examples: int = 1) -> str:
    """What `mixlab mix show` prints: totals, the receipt, lengths, a few rendered rows.

    Args:
        plan: the plan.
        sources: its sources.
        examples: rendered rows shown per source and format.

    Returns:
        Plain text that ends with a newline.
    """
    table, totals = receipt(plan)
    about = plan.about
    lines = [
        f"Mix {about['mix']['name']}, plan {plan.digest}, seed {about['seed']}",
        f"{plan.steps} steps of about {about['batch_supervised_tokens']} supervised tokens: "
        f"{totals['supervised_tokens']:,} supervised of {totals['total_tokens']:,} tokens, "
        f"{totals['rows']:,} rows, {totals['distinct_rows']:,} distinct",
        f"Text: asked {totals['text_fraction']:.1%} of supervised tokens, got "
        f"{totals['realised_text_supervised']:.2%} ({totals['realised_text_rows']:.2%} of rows, "
        f"{totals['realised_text_tokens']:.2%} of all tokens)",
    ]
    if about["vision_scale"] != 1.0:
        lines.append(
            f"Vision budget x {about['vision_scale']:g}: the same tokens a step, fewer steps "
            "and fewer supervised tokens in total"
        )
    lines += ["", _receipt_lines(table), "", "Supervised tokens a row", _lengths(plan)]
    if examples > 0:
        lines += ["", "Rows as they are trained on", *_examples(plan, sources, examples)]
    return "\n".join(lines) + "\n"


def _receipt_lines(table: pd.DataFrame) -> str:
    head = ("source", "modality", "format", "asked", "got", "supervised", "tokens", "rows")
    lines: list[Any] = list(table.itertuples())
    body: list[tuple[str, ...]] = [
        (
            row.source,
            row.modality,
            row.format,
            f"{row.requested:.2%}",
            f"{row.realised_share:.2%}",
            f"{row.realised_supervised:,}",
            f"{row.realised_tokens:,}",
            f"{row.realised_rows:,}",
            f"{row.distinct_rows:,}",
            f"{row.passes:g}",
            f"{row.dropped} {row.reason}".strip() if row.dropped else "",
        )
        for row in lines
    ]
    return _columns([(*head, "distinct", "passes", "dropped"), *body], left=3)


def _lengths(plan: Plan) -> str:
    body: list[tuple[str, ...]] = [("format", "rows", "min", "median", "mean", "max")]
    for code, fmt in enumerate(FORMATS):
        counts = plan.columns["supervised"][plan.columns["format"] == code]
        if len(counts):
            body.append(
                (
                    fmt,
                    f"{len(counts):,}",
                    f"{counts.min()}",
                    f"{np.median(counts):g}",
                    f"{counts.mean():.1f}",
                    f"{counts.max()}",
                )
            )
    return _columns(body, left=1)


def _examples(plan: Plan, sources: Sequence[Source], examples: int) -> list[str]:
    lines: list[str] = []
    shown: dict[tuple[int, str], int] = {}
    for k in range(plan.steps):
        for entry in plan.batch(k):
            key = (entry.source, entry.format)
            if shown.get(key, 0) >= examples:
                continue
            shown[key] = shown.get(key, 0) + 1
            source = sources[entry.source]
            image = source.rows[entry.row].image
            lines.append(
                f"- {source.name}, {entry.format}, row {entry.row}"
                + (f", image {image}" if image else "")
            )
            for message in source.messages(entry.row, entry.format):
                text = textwrap.shorten(message["content"].replace("\n", " / "), 160)
                lines.append(f"    {message['role']}: {text}")
        if k >= 50:
            break
    return lines


def _columns(rows: Sequence[Sequence[str]], left: int) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
