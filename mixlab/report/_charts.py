"""The charts, each from one tidy DataFrame; `narrow` lays it out for a telephone."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from mixlab.report._svg import BAND, BLUE, GREEN, INK, MUTED, PAPER, RUST

MARKS = {
    "baseline": ("circle", BLUE),
    "other formats": ("square", GREEN),
    "dilution": ("diamond", RUST),
    "text twin": ("triangle-up", INK),
    "placebo": ("triangle-down", MUTED),
    "trial": ("cross", MUTED),
}
TWO = {"text regained, R": ("circle", BLUE, [1, 0]), "vision kept, V": ("square", RUST, [5, 3])}

QUARTERS = [0, 0.25, 0.5, 0.75, 1]


def _present(table: pd.DataFrame) -> list[str]:
    return [k for k in MARKS if k in set(table["kind"])]


def _shape(known: list[str]) -> alt.Shape:
    scale = alt.Scale(domain=known, range=[MARKS[k][0] for k in known])
    if len(known) < 2:
        return alt.Shape("kind:N", scale=scale, legend=None)
    return alt.Shape("kind:N", scale=scale)


def _colour(known: list[str]) -> alt.Color:
    scale = alt.Scale(domain=known, range=[MARKS[k][1] for k in known])
    if len(known) < 2:
        return alt.Color("kind:N", scale=scale, legend=None)
    return alt.Color("kind:N", scale=scale)


def _zero(axis: str) -> alt.Chart:
    where = alt.X(datum=0) if axis == "x" else alt.Y(datum=0)
    return alt.Chart(pd.DataFrame([{}])).mark_rule(color=INK, strokeWidth=0.8).encode(where)


def _band(axis: str, margin: float) -> alt.Chart:
    base = alt.Chart(pd.DataFrame([{"a": -margin, "b": margin}])).mark_rect(color=BAND)
    return base.encode(x="a:Q", x2="b:Q") if axis == "x" else base.encode(y="a:Q", y2="b:Q")


def forest(table: pd.DataFrame, *, margin: float | None, title: str, narrow: bool) -> Any:
    """Dot and interval by recipe, one panel a line.

    Columns: line, recipe, kind, estimate, low, high.
    """
    known = _present(table)
    order = list(dict.fromkeys(table["recipe"]))
    least = min(float(table["low"].min()), -(margin or 0))
    most = max(float(table["high"].max()), margin or 0)
    if (
        margin
    ):  # a loss cannot pass 100 points, whatever an interval with one degree of freedom says
        least, most = max(least, -100.0), min(most, 100.0)
    pad = 0.04 * ((most - least) or 1)
    scale = alt.Scale(domain=[least - pad, most + pad], nice=False, clamp=True)
    per_row, panels = 1 if narrow else 3, []
    for i, (line, part) in enumerate(table.groupby("line", sort=False)):
        axis = alt.Axis(labels=i % per_row == 0, labelLimit=130 if narrow else 175)
        y = alt.Y("recipe:N", sort=order, title=None, axis=axis)
        x = alt.X("low:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
        base = alt.Chart(part)
        rule = base.mark_rule(strokeWidth=1.6).encode(x=x, x2="high:Q", y=y, color=_colour(known))
        dots = base.mark_point(filled=True, size=58, opacity=1).encode(
            x=alt.X("estimate:Q", title=title, scale=scale),
            y=y,
            shape=_shape(known),
            color=_colour(known),
        )
        layers = [*([_band("x", margin)] if margin else []), _zero("x"), rule, dots]
        size: dict[str, Any] = {"width": 190 if narrow else 225, "height": alt.Step(22)}
        panels.append(alt.layer(*layers).properties(title=str(line), **size))
    return alt.concat(*panels, columns=per_row, spacing=24)


def response(table: pd.DataFrame, *, margin: float, narrow: bool) -> Any:
    """Loss over the realised share of text; columns line, share (%), estimate, low, high, kind."""
    known = _present(table)
    top = max(float(table["share"].max()), 1.0)
    low = max(min(float(table["low"].min()), -margin), -100.0)
    high = min(max(float(table["high"].max()), margin), 100.0)
    ys = alt.Scale(domain=[low, high], nice=True, clamp=True)
    xs = alt.Scale(domain=[-0.05 * top, 1.06 * top], nice=False)
    per_row, panels = 1 if narrow else 3, []
    for i, (line, part) in enumerate(table.groupby("line", sort=False)):
        base = alt.Chart(part)
        said = "Realised share of text, % of supervised tokens"
        x = alt.X("share:Q", scale=xs, title=said, axis=alt.Axis(grid=False, tickCount=6))
        name = "Loss, points" if i % per_row == 0 else None
        y = alt.Y("estimate:Q", scale=ys, title=name, axis=alt.Axis(tickCount=5))
        joined = base.transform_filter("datum.kind == 'baseline'").mark_line(
            color=BLUE, strokeWidth=1.1, opacity=0.55
        )
        rule = base.transform_filter("datum.kind != 'trial'").mark_rule(strokeWidth=1.4)
        spread: dict[str, Any] = {"y": alt.Y("low:Q", scale=ys), "y2": "high:Q"}
        dots = base.mark_point(filled=True, size=52, opacity=0.95).encode(
            x=x, y=y, shape=_shape(known), color=_colour(known)
        )
        layers = [
            _band("y", margin),
            _zero("y"),
            joined.encode(x=x, y=y),
            rule.encode(x=x, color=_colour(known), **spread),
            dots,
        ]
        size: dict[str, Any] = {"width": 250 if narrow else 240, "height": 180}
        panels.append(alt.layer(*layers).properties(title=str(line), **size))
    return alt.concat(*panels, columns=per_row, spacing=24)


def plane(table: pd.DataFrame, *, narrow: bool) -> Any:
    """Vision over text; columns text, vision, kind, label (may be empty), front (bool)."""
    known = _present(table)
    base = alt.Chart(table)
    tight = alt.Scale(zero=False, padding=16, nice=False)
    few = alt.Axis(tickCount=5 if narrow else 7)
    x = alt.X("text:Q", title="Text score, mean of constructs, points", scale=tight, axis=few)
    y = alt.Y("vision:Q", title="Vision score, points", scale=tight, axis=few)
    dots = base.mark_point(filled=True, size=70, opacity=0.95).encode(
        x=x, y=y, shape=_shape(known), color=_colour(known)
    )
    best = base.transform_filter("datum.front")
    ring = best.mark_point(shape="circle", filled=False, size=230, color=INK, strokeWidth=0.9)
    front = best.mark_line(
        color=INK, strokeWidth=0.9, strokeDash=[4, 3], interpolate="step-before"
    ).encode(x=x, y=y, order="text:Q")
    layers: list[Any] = []
    if not narrow:
        named = table.loc[table["label"] != ""].sort_values("text")
        for i in (0, 1):  # neighbours take turns above and below, so that labels keep apart
            side: dict[str, Any] = {"dy": (-15, 16)[i], "fontSize": 11, "baseline": "middle"}
            words = alt.Chart(named.iloc[i::2]).encode(x=x, y=y, text="label:N")
            layers.append(words.mark_text(stroke=PAPER, strokeWidth=4, color=PAPER, **side))
            layers.append(words.mark_text(color=INK, **side))
    layers += [front, dots, ring.encode(x=x, y=y)]
    width, height = (270, 250) if narrow else (780, 360)
    return alt.layer(*layers).properties(width=width, height=height)


def merges(table: pd.DataFrame, joints: pd.DataFrame, *, narrow: bool) -> Any:
    """R and V over alpha, one panel a recipe.

    Columns: recipe, curve, alpha, estimate, low, high; of joints: recipe, J, J0, alpha.
    """
    least = max(-0.25, min(0.0, float(table["estimate"].min())))
    ys = alt.Scale(domain=[least, 1.15], nice=False, clamp=True)
    names = [n for n in TWO if n in set(table["curve"])]
    colours = alt.Scale(domain=names, range=[TWO[n][1] for n in names])
    shapes = alt.Scale(domain=names, range=[TWO[n][0] for n in names])
    per_row, panels = 1 if narrow else 3, []
    for i, (recipe, part) in enumerate(table.groupby("recipe", sort=False)):
        base = alt.Chart(part)
        ticks = alt.Axis(values=QUARTERS, grid=False, labelExpr="datum.value")
        xs = alt.Scale(domain=[-0.03, 1.03], nice=False)
        x = alt.X("alpha:Q", title="alpha (1 is the VLM untouched)", scale=xs, axis=ticks)
        up = alt.Axis(values=QUARTERS, labelExpr="datum.value")
        y = alt.Y("estimate:Q", title="Share" if i % per_row == 0 else None, scale=ys, axis=up)
        colour = alt.Color("curve:N", scale=colours)
        rule = base.mark_rule(strokeWidth=1.2, opacity=0.7)
        lines = [
            base.transform_filter(alt.datum.curve == n)
            .mark_line(strokeWidth=1.8, strokeDash=TWO[n][2])
            .encode(x=x, y=y, color=colour)
            for n in names
        ]
        dots = base.mark_point(filled=True, size=46, opacity=1).encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape("curve:N", scale=shapes),
        )
        layers = [
            rule.encode(x=x, y=alt.Y("low:Q", scale=ys), y2="high:Q", color=colour),
            *lines,
            dots,
            *_joint(joints.loc[joints["recipe"] == recipe], ys),
        ]
        size: dict[str, Any] = {"width": 250 if narrow else 235, "height": 185}
        panels.append(alt.layer(*layers).properties(title=str(recipe), **size))
    return alt.concat(*panels, columns=per_row, spacing=24)


def _joint(mine: pd.DataFrame, ys: alt.Scale) -> list[Any]:
    """J as a triangle, J0 as a dotted rule with its name."""
    if mine.empty:
        return []
    base, chord = alt.Chart(mine), alt.Y("J0:Q", scale=ys)
    rule = base.mark_rule(color=INK, strokeDash=[1, 3], strokeWidth=1.2).encode(y=chord)
    tip = base.mark_point(
        shape="triangle-up", filled=True, size=120, color=INK, stroke=PAPER, opacity=1
    )
    name = base.mark_text(align="left", dx=4, dy=-7, fontSize=10, color=MUTED)
    return [
        rule,
        tip.encode(x=alt.X("alpha:Q"), y=alt.Y("J:Q", scale=ys)),
        name.encode(x=alt.X(datum=0), y=chord, text=alt.value("J0")),
    ]
