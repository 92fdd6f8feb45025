"""Comparisons of recipes: contrasts, formats, front, merge curves, protocols."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mixlab.attribute import (
    Contrast,
    Estimate,
    FormatEffect,
    Line,
    Loss,
    MergeCurve,
    Recipe,
    UnpairedError,
    alphas_of,
    contrast,
    format_effects,
    loss_on,
    merge_curve,
    pareto,
    text_contrast,
)
from mixlab.report._read import Study
from mixlab.report._roles import Roles, text_share_of
from mixlab.report._shares import Shares


@dataclass(frozen=True)
class Place:
    """A recipe in the plane of text and vision, points on `split`, and whether nothing beats it."""

    recipe: Recipe
    text: float
    vision: float
    split: str
    front: bool


def contrasts(
    test: pd.DataFrame,
    frame: dict[str, pd.DataFrame],
    roles: Roles,
    found: list[Line],
    text: list[Line],
    margin: float,
) -> list[tuple[str, Contrast]]:
    """Named contrasts: text against none, dilution against none, text against dilution, formats."""
    wanted = [
        ("text", roles.mixed, roles.none),
        ("dilution", roles.dilution, roles.none),
        ("text beyond dilution", roles.mixed, roles.dilution),
        ("diverse formats", roles.diverse, roles.diverse_partner),
    ]
    wanted += [
        (f"text: {r.label}", r, roles.none)
        for r in roles.same_format
        if roles.none is not None and r.key not in {roles.none.key, getattr(roles.mixed, "key", "")}
    ]
    out: list[tuple[str, Contrast]] = []
    for name, first, second in wanted:
        if first is None or second is None:
            continue
        if text:
            out.append((name, text_contrast(test, first, second, text, margin=margin)))
        for line in found:
            out.append((name, contrast(frame[line.construct], first, second, line, margin=margin)))
    return out


def effects_of(
    body: list[Recipe],
    shares: dict[str, Shares],
    scores: list[tuple[Recipe, Line, Estimate]],
    text: list[Line],
    vision: Line | None,
) -> tuple[list[FormatEffect], str]:
    """Format effects per line, or why there are none."""
    seen: dict[str, float] = {}
    for r in body:
        for name, share in shares[r.key].formats.items():
            seen[name] = seen.get(name, 0.0) + share
    formats = sorted(seen, key=lambda k: (k != "short", -seen[k]))
    rows = [
        {
            "key": r.key,
            "text": text_share_of(shares, r),
            **{k: shares[r.key].formats.get(k, 0.0) for k in formats},
        }
        for r in body
        if r.kind in ("baseline", "trial")
    ]
    if not rows:
        return [], "no recipe was scored on test"
    base = pd.DataFrame(rows).set_index("key")
    out: list[FormatEffect] = []
    for line in [*text, *([vision] if vision else [])]:
        values = {r.key: e.estimate for r, ln, e in scores if ln.key == line.key}
        table = base.assign(score=[values.get(k, math.nan) for k in base.index])
        try:
            out += format_effects(table.dropna(subset=["score"]), line, formats)
        except UnpairedError as error:
            return [], str(error)
    return out, ""


def places_of(
    body: list[Recipe],
    every: list[Recipe],
    overall: list[Loss],
    scores: list[tuple[Recipe, Line, Estimate]],
    vision: Line | None,
    trials: pd.DataFrame,
) -> list[Place]:
    """Text and vision of each recipe: on test where scored, else the trial's own values on dev."""
    if vision is None:
        return []
    text = {x.recipe.key: x.score for x in overall}
    sight = {r.key: e.estimate for r, ln, e in scores if ln.key == vision.key}
    rows = [(r, text[r.key], sight[r.key]) for r in body if r.key in text and r.key in sight]
    front = pareto([[t, v] for _, t, v in rows]) if rows else np.array([], dtype=bool)
    places = [Place(r, t, v, "test", bool(f)) for (r, t, v), f in zip(rows, front, strict=True)]
    have = {r.key for r, _, _ in rows}
    known = {r.key: r for r in every}
    if not trials.empty and {"recipe", "text", "vision"} <= set(trials.columns):
        for row in trials.drop_duplicates("recipe", keep="last").to_dict("records"):
            recipe = known.get(str(row["recipe"]))
            t, v = _value(row["text"]), _value(row["vision"])
            if recipe is None or recipe.key in have or math.isnan(t) or math.isnan(v):
                continue
            places.append(Place(recipe, 100 * t, 100 * v, "dev", False))
    return places


def _value(cell: object) -> float:
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def curves_of(
    study: Study,
    body: list[Recipe],
    text: list[Line],
    vision: Line | None,
    notes: list[str],
) -> list[MergeCurve]:
    """Merge curves of all recipes that were merged; `notes` gets what could not be paired."""
    if vision is None or not text:
        return []
    best = study.best
    merged = set(best.loc[best["operator"] == "merge", "run"].unique())
    anchor = best.loc[best["run"] == "reference"]
    curves = []
    for recipe in body:
        mine = [r for r in recipe.runs if r in merged]
        if not mine:
            continue
        part = pd.concat([anchor, best.loc[best["run"].isin(mine)]])
        if not any(alphas_of(part, run) for run in mine):
            continue
        try:
            curves.append(merge_curve(part, recipe, text, vision, margin=study.margin))
        except UnpairedError as error:
            notes.append(f"Merge curve of {recipe.label}: {error}")
    return curves


def by_protocol(
    study: Study, arms: list[Recipe], skills: list[Line]
) -> list[tuple[Recipe, Line, str, Loss]]:
    """Loss under each protocol alone, to show how far the verdict hangs on the choice."""
    names = [p for p in study.protocols if p in set(study.scores["protocol"].unique())]
    names += [str(p) for p in study.scores["protocol"].unique() if p not in names]
    if len(names) < 2:
        return []
    plain = study.scores.loc[
        (study.scores["operator"] == "none") & (study.scores["split"] == "test")
    ]
    out = []
    for line in skills:
        for name in names:
            part = plain.loc[(plain["construct"] == line.construct) & (plain["protocol"] == name)]
            for r in arms:
                try:
                    loss = loss_on(part, r, line, margin=study.margin)
                except UnpairedError:
                    continue
                out.append((r, line, name, loss))
    return out
