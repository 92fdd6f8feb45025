"""Figures: a chart in two widths, its name, description, caption and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from markupsafe import Markup

from mixlab.attribute import Recipe
from mixlab.report import _charts
from mixlab.report._findings import Findings
from mixlab.report._numbers import number, percent
from mixlab.report._safe import plain
from mixlab.report._svg import svg
from mixlab.report._words import text_share


@dataclass(frozen=True)
class Table:
    """A table for the page: header cells and rows of text (numbers already printed)."""

    head: list[str]
    rows: list[list[str]]
    numeric: list[bool] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """One plate of the page."""

    key: str
    name: str
    description: str
    caption: str
    wide: Markup
    narrow: Markup
    table: Table


def _figure(
    key: str, name: str, description: str, caption: str, make: Callable[[bool], Any], table: Table
) -> Figure:
    wide, narrow = svg(make(False), f"{key}w"), svg(make(True), f"{key}n")
    return Figure(key, name, description, caption, Markup(wide), Markup(narrow), table)


def mark(f: Findings, recipe: Recipe) -> str:
    """By which of the marks in `_charts.MARKS` a recipe is drawn."""
    if recipe.kind in ("dilution", "placebo", "trial"):
        return recipe.kind
    if recipe.kind == "twin":
        return "text twin"
    same = any(r.key == recipe.key for r in f.roles.same_format)
    return "baseline" if same else "other formats"


def _finite(value: float, fallback: float) -> float:
    return value if math.isfinite(value) else fallback


def loss_figure(f: Findings) -> Figure | None:
    """Loss by construct, one panel a line, one row a recipe."""
    rows, printed = [], []
    for line in f.lines:
        for r in sorted(f.arms, key=lambda r: (r.kind != "baseline", text_share(f, r))):
            x = f.loss(r, line.key)
            if x is None:
                continue
            e = x.estimate
            wide = e.over_items
            rows.append(
                {
                    "line": line.label,
                    "recipe": plain(r.label),
                    "kind": mark(f, r),
                    "estimate": e.estimate,
                    "low": _finite(e.low, e.estimate),
                    "high": _finite(e.high, e.estimate),
                }
            )
            printed.append(
                [
                    line.label,
                    r.label,
                    number(x.reference),
                    number(x.score),
                    number(e.estimate),
                    number(e.low),
                    number(e.high),
                    f"[{number(wide.low)}, {number(wide.high)}]" if wide else "–",
                    x.word,
                    str(e.n_seeds),
                    str(e.n_items),
                    str(e.n_clusters),
                    number(e.detectable),
                ]
            )
    if not rows:
        return None
    frame = pd.DataFrame(rows)
    head = ["Skill", "Recipe", "Reference", "Arm", "Loss", "Low", "High", "Also over items"]
    head += ["Word", "Seeds", "Items", "Clusters", "Smallest detectable"]
    numeric = [False, False, *[True] * 5, True, False, *[True] * 4]
    return _figure(
        "loss",
        "Loss of each skill against the reference, by recipe",
        f"Dot plot with intervals, one panel for each of {frame['line'].nunique()} skills and "
        "one row "
        f"for each of {frame['recipe'].nunique()} recipes. Losses run from "
        f"{number(frame['estimate'].min())} to {number(frame['estimate'].max())} points.",
        "Points lost against the reference on the same test items, with 95% intervals: over seeds "
        "where there are two or more, else over clusters of items. Shaded: the margin within "
        "which a "
        "loss counts as none.",
        lambda narrow: _charts.forest(
            frame, margin=f.study.margin, title="Loss, points", narrow=narrow
        ),
        Table(head, printed, numeric),
    )


def response_figure(f: Findings) -> Figure | None:
    """Loss over the realised share of text; baselines, dilution and trials."""
    rows, printed = [], []
    for line in f.lines:
        for r in [*f.arms, *f.trials]:
            x = f.loss(r, line.key)
            share = text_share(f, r)
            if x is None or math.isnan(share) or r.kind in ("twin", "placebo"):
                continue
            e, s = x.estimate, f.shares[r.key]
            rows.append(
                {
                    "line": line.label,
                    "share": 100 * share,
                    "estimate": e.estimate,
                    "low": _finite(e.low, e.estimate),
                    "high": _finite(e.high, e.estimate),
                    "kind": mark(f, r),
                }
            )
            printed.append(
                [
                    line.label,
                    r.label,
                    percent(s.requested),
                    percent(s.supervised),
                    percent(s.tokens),
                    percent(s.rows),
                    number(e.estimate),
                    number(e.low),
                    number(e.high),
                    str(e.n_seeds),
                ]
            )
    if not rows:
        return None
    frame = pd.DataFrame(rows)
    head = ["Skill", "Recipe", "Text asked for", "of supervised tokens", "of all tokens", "of rows"]
    head += ["Loss", "Low", "High", "Seeds"]
    return _figure(
        "response",
        "Loss over the share of text that was trained on",
        f"Scatter plots, one panel a skill, {len(f.arms) + len(f.trials)} recipes, realised "
        "shares of "
        f"text from {number(frame['share'].min())}% to {number(frame['share'].max())}%.",
        "Each mark is a recipe. The axis shows the share of supervised tokens from text as "
        "realised "
        "in training, not as asked for; shares by row and by token stand in the table. "
        "Trials differ "
        "in output formats too. The dilution arm has no text and less vision.",
        lambda narrow: _charts.response(frame, margin=f.study.margin, narrow=narrow),
        Table(head, printed, [False, False, *[True] * 8]),
    )


def format_figure(f: Findings) -> Figure | None:
    """Effect of each output format's share, where it could be estimated."""
    if not f.effects:
        return None
    rows, printed = [], []
    for e in f.effects:
        x = e.estimate
        rows.append(
            {
                "line": e.line.label,
                "recipe": plain(e.format),
                "kind": "trial",
                "estimate": x.estimate,
                "low": x.low,
                "high": x.high,
            }
        )
        printed.append(
            [
                e.line.label,
                e.format,
                e.base,
                number(x.estimate, 2),
                number(x.low, 2),
                number(x.high, 2),
                number(x.df, 0),
                str(x.n_seeds),
                number(x.detectable, 2),
            ]
        )
    frame = pd.DataFrame(rows)
    base = plain(f.effects[0].base)
    head = ["Skill", "Format", "Instead of", "Effect", "Low", "High", "df", "Recipes"]
    head += ["Smallest detectable"]
    return _figure(
        "formats",
        "Effect of output formats on each skill",
        f"Dot plot with intervals: change of score when ten points of share move from {base} to "
        "another format.",
        f"Change of score, in points, when ten points of share move from “{base}” to the "
        "format named, at the same share of text. Least squares over all recipes scored on test, "
        "realised shares, HC3 intervals.",
        lambda narrow: _charts.forest(
            frame, margin=None, title="Change of score, points", narrow=narrow
        ),
        Table(head, printed, [False, False, False, *[True] * 6]),
    )


def plane_figure(f: Findings) -> Figure | None:
    """Text against vision, with the front."""
    if not f.places:
        return None
    rows, printed = [], []
    for p in f.places:
        rows.append(
            {
                "text": p.text,
                "vision": p.vision,
                "kind": mark(f, p.recipe),
                "label": plain(p.recipe.label) if p.recipe.kind != "trial" else "",
                "front": p.front,
            }
        )
        printed.append(
            [
                p.recipe.label,
                p.recipe.kind,
                percent(text_share(f, p.recipe)),
                number(p.text),
                number(p.vision),
                p.split,
                "yes" if p.front else "no",
                str(len(p.recipe.runs)),
            ]
        )
    frame = pd.DataFrame(rows)
    head = [
        "Recipe",
        "Kind",
        "Text",
        "Text score",
        "Vision score",
        "Split",
        "On the front",
        "Seeds",
    ]
    return _figure(
        "plane",
        "Text against vision: what nothing else beats",
        f"Scatter plot of {len(f.places)} recipes; {int(frame['front'].sum())} of them lie on "
        "the front.",
        "Mean text score against vision score. Ringed and joined: recipes that no other "
        "beats on both. "
        "Most trials have one seed, so places on the front may change with another.",
        lambda narrow: _charts.plane(frame, narrow=narrow),
        Table(head, printed, [False, False, True, True, True, False, False, True]),
    )


def merge_figure(f: Findings) -> Figure | None:
    """R and V over alpha, a panel a recipe."""
    rows, joints, printed = [], [], []
    for c in f.curves:
        title = plain(c.recipe.label)
        title += "" if c.points[0].recovery else " (R undefined)"
        for p in c.points:
            for name, e in (("text regained, R", p.recovery), ("vision kept, V", p.retention)):
                if e is None:
                    continue
                rows.append(
                    {
                        "recipe": title,
                        "curve": name,
                        "alpha": p.alpha,
                        "estimate": e.estimate,
                        "low": _finite(e.low, e.estimate),
                        "high": _finite(e.high, e.estimate),
                    }
                )
            r, v = p.recovery, p.retention
            printed.append(
                [
                    c.recipe.label,
                    f"{p.alpha:g}",
                    number(p.text),
                    number(p.vision),
                    number(r.estimate, 2) if r else "undefined",
                    f"[{number(r.low, 2)}, {number(r.high, 2)}]" if r else "–",
                    number(v.estimate, 2) if v else "undefined",
                    f"[{number(v.low, 2)}, {number(v.high, 2)}]" if v else "–",
                    str(len(c.recipe.runs)),
                ]
            )
        if c.joint:
            joints.append(
                {
                    "recipe": title,
                    "J": c.joint.joint.estimate,
                    "J0": c.joint.chord.estimate,
                    "alpha": sum(c.joint.alphas) / len(c.joint.alphas),
                }
            )
    if not rows:
        return None
    frame = pd.DataFrame(rows)
    marks = pd.DataFrame(joints, columns=["recipe", "J", "J0", "alpha"])
    head = ["Recipe", "alpha", "Text score", "Vision score", "R", "R interval", "V", "V interval"]
    return _figure(
        "merge",
        "What a merge with the reference brings back, and what it costs",
        f"Line charts, one panel for each of {frame['recipe'].nunique()} recipes: share of "
        "the lost "
        "text score regained and share of vision kept, over alpha.",
        "Solid with circles: R, the share of the lost text score that is back. Dashed with "
        "squares: V, "
        "the share of vision above the floor that is kept. Triangle: J on test at the alpha "
        "chosen on "
        "dev. Dotted: J0, the straight chord. alpha 1 is the VLM untouched; at alpha 0 the "
        "language "
        "weights are the reference's own, so a merge measures repair, not access.",
        lambda narrow: _charts.merges(frame, marks, narrow=narrow),
        Table([*head, "Seeds"], printed, [False, *[True] * 8]),
    )
