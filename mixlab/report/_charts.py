"""The charts, each from one tidy DataFrame; `narrow` lays it out for a telephone."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from mixlab.report._svg import BAND, BLUE, GREEN, INK, LINE, MUTED, PAPER, RUST

SHAPES = {"baseline": "circle", "dilution": "diamond", "trial": "circle", "twin": "square"}
KINDS = ["baseline", "dilution", "twin", "trial"]


def _kind_shape(present: list[str]) -> alt.Shape:
    known = [k for k in KINDS if k in present] + [k for k in present if k not in KINDS]
    return alt.Shape(
        "kind:N",
        scale=alt.Scale(
            domain=known,
            range=[{"baseline": "circle", "dilution": "diamond", "twin": "square"}.get(k, "cross")
                   for k in known],
        ),
    )  # fmt: skip


def _zero(axis: str) -> alt.Chart:
    where = alt.X(datum=0) if axis == "x" else alt.Y(datum=0)
    return alt.Chart(pd.DataFrame([{}])).mark_rule(color=INK, strokeWidth=0.8).encode(where)


def _band(axis: str, margin: float) -> alt.Chart:
    base = alt.Chart(pd.DataFrame([{"a": -margin, "b": margin}])).mark_rect(color=BAND)
    if axis == "x":
        return base.encode(x="a:Q", x2="b:Q")
    return base.encode(y="a:Q", y2="b:Q")


def forest(
    table: pd.DataFrame, *, margin: float | None, title: str, narrow: bool, columns: int = 3
) -> Any:
    """Dot and interval by recipe, one panel a line; columns line, recipe, kind, estimate, low, high."""
    panels = []
    order = list(dict.fromkeys(table["recipe"]))
    low, high = float(table["low"].min()), float(table["high"].max())
    pad = 0.04 * (high - low or 1)
    scale = alt.Scale(
        domain=[min(low, -(margin or 0)) - pad, max(high, margin or 0) + pad], nice=False
    )
    per_row = 1 if narrow else columns
    for i, (line, part) in enumerate(table.groupby("line", sort=False)):
        first = i % per_row == 0
        y = alt.Y("recipe:N", sort=order, title=None, axis=alt.Axis(labels=first, labelLimit=170))
        x = alt.X("low:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
        base = alt.Chart(part)
        rule = base.mark_rule(color=BLUE, strokeWidth=1.6).encode(x=x, x2="high:Q", y=y)
        dots = base.mark_point(filled=True, color=BLUE, size=58, opacity=1).encode(
            x=alt.X("estimate:Q", title=title, scale=scale),
            y=y,
            shape=alt.Shape(
                "kind:N",
                legend=None,
                scale=alt.Scale(
                    domain=["baseline", "dilution", "twin", "trial", "start"],
                    range=["circle", "diamond", "square", "cross", "triangle-up"],
                ),
            ),
        )
        layers = [*([_band("x", margin)] if margin else []), _zero("x"), rule, dots]
        width = 190 if narrow else (200 if columns == 3 else 260)
        panels.append(
            alt.layer(*layers).properties(width=width, height=alt.Step(22), title=str(line))
        )
    return alt.concat(*panels, columns=per_row, spacing=22)


def response(table: pd.DataFrame, *, margin: float, narrow: bool) -> Any:
    """Loss over the realised share of text; columns line, share (%), estimate, low, high, kind."""
    panels = []
    per_row = 1 if narrow else 3
    top = max(float(table["share"].max()), 1.0)
    low, high = float(table["low"].min()), float(table["high"].max())
    ys = alt.Scale(domain=[min(low, -margin), max(high, margin)], nice=True)
    xs = alt.Scale(domain=[-0.04 * top, 1.06 * top], nice=False)
    present = [str(k) for k in table["kind"].unique()]
    for i, (line, part) in enumerate(table.groupby("line", sort=False)):
        base = alt.Chart(part)
        x = alt.X("share:Q", scale=xs, title="Realised share of text, % of supervised tokens",
                  axis=alt.Axis(grid=False, tickCount=6))  # fmt: skip
        y = alt.Y("estimate:Q", scale=ys, title="Loss, points" if i % per_row == 0 else None,
                  axis=alt.Axis(tickCount=5))  # fmt: skip
        arms = base.transform_filter("datum.kind != 'trial'")
        rule = arms.mark_rule(strokeWidth=1.4).encode(
            x=x, y=alt.Y("low:Q", scale=ys), y2="high:Q", color=_kind_colour(present)
        )
        dots = base.mark_point(filled=True, size=52, opacity=0.95).encode(
            x=x, y=y, shape=_kind_shape(present), color=_kind_colour(present)
        )
        layers = [_band("y", margin), _zero("y"), rule, dots]
        panels.append(
            alt.layer(*layers).properties(width=250 if narrow else 205, height=170, title=str(line))
        )
    return alt.concat(*panels, columns=per_row, spacing=22)


def _kind_colour(present: list[str]) -> alt.Color:
    known = [k for k in KINDS if k in present] + [k for k in present if k not in KINDS]
    colours = {"baseline": BLUE, "dilution": RUST, "twin": GREEN, "trial": MUTED}
    return alt.Color(
        "kind:N", scale=alt.Scale(domain=known, range=[colours.get(k, INK) for k in known])
    )


def plane(table: pd.DataFrame, *, narrow: bool) -> Any:
    """Vision over text; columns text, vision, kind, label (may be empty), front (bool)."""
    base = alt.Chart(table)
    present = [str(k) for k in table["kind"].unique()]
    x = alt.X("text:Q", title="Text score, mean of constructs, points",
              scale=alt.Scale(zero=False, padding=14))  # fmt: skip
    y = alt.Y("vision:Q", title="Vision score, points", scale=alt.Scale(zero=False, padding=14))
    dots = base.mark_point(filled=True, size=70, opacity=0.95).encode(
        x=x, y=y, shape=_kind_shape(present), color=_kind_colour(present)
    )
    ring = base.transform_filter("datum.front").mark_point(
        shape="circle", filled=False, size=210, color=INK, strokeWidth=0.9
    ).encode(x=x, y=y)  # fmt: skip
    front = base.transform_filter("datum.front").mark_line(
        color=INK, strokeWidth=0.9, strokeDash=[4, 3], interpolate="step-after"
    ).encode(x=x, y=y, order="text:Q")  # fmt: skip
    words = base.mark_text(align="left", dx=9, dy=-7, fontSize=11, color=INK).encode(
        x=x, y=y, text="label:N"
    )
    width, height = (270, 250) if narrow else (620, 340)
    layers = [front, dots, ring] + ([] if narrow else [words])
    return alt.layer(*layers).properties(width=width, height=height)


def merges(table: pd.DataFrame, joints: pd.DataFrame, *, narrow: bool) -> Any:
    """R and V over alpha; columns recipe, curve, alpha, estimate, low, high. Joints: recipe, J, J0, alpha."""
    panels = []
    per_row = 1 if narrow else 3
    low = max(-0.25, min(0.0, float(table["estimate"].min())))
    ys = alt.Scale(domain=[low, 1.1], nice=False, clamp=True)
    names = ["text regained, R", "vision kept, V"]
    colour = alt.Color("curve:N", scale=alt.Scale(domain=names, range=[BLUE, RUST]))
    dash = alt.StrokeDash("curve:N", scale=alt.Scale(domain=names, range=[[1, 0], [5, 3]]))
    shape = alt.Shape("curve:N", scale=alt.Scale(domain=names, range=["circle", "square"]))
    for i, (recipe, part) in enumerate(table.groupby("recipe", sort=False)):
        base = alt.Chart(part)
        x = alt.X("alpha:Q", title="alpha (1 is the VLM untouched)",
                  scale=alt.Scale(domain=[-0.03, 1.03], nice=False),
                  axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], grid=False))  # fmt: skip
        y = alt.Y("estimate:Q", title="Share" if i % per_row == 0 else None, scale=ys,
                  axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1]))  # fmt: skip
        rule = base.mark_rule(strokeWidth=1.2, opacity=0.7).encode(
            x=x, y=alt.Y("low:Q", scale=ys), y2="high:Q", color=colour
        )
        line = base.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=colour, strokeDash=dash)
        dots = base.mark_point(filled=True, size=46, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape
        )
        layers = [rule, line, dots]
        mine = joints.loc[joints["recipe"] == recipe]
        if len(mine):
            marked = alt.Chart(mine)
            layers.append(
                marked.mark_rule(color=INK, strokeDash=[1, 3], strokeWidth=1.2).encode(
                    y=alt.Y("J0:Q", scale=ys)
                )
            )
            layers.append(
                marked.mark_point(
                    shape="triangle-up", filled=True, size=120, color=INK, stroke=PAPER, opacity=1
                ).encode(x=alt.X("alpha:Q"), y=alt.Y("J:Q", scale=ys))
            )
            layers.append(
                marked.mark_text(align="left", dx=2, dy=-7, fontSize=10, color=MUTED)
                .encode(x=alt.X(datum=0), y=alt.Y("J0:Q", scale=ys), text=alt.value("J0"))
            )  # fmt: skip
        panels.append(
            alt.layer(*layers).properties(
                width=250 if narrow else 200, height=180, title=str(recipe)
            )
        )
    return alt.concat(*panels, columns=per_row, spacing=22)


__all__ = ["LINE", "forest", "merges", "plane", "response"]
