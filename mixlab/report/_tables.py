"""The page's tables: glance, contrasts, churn, protocols, receipts, trials, runs."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from mixlab.attribute import Line, Recipe
from mixlab.report._figures import Table
from mixlab.report._findings import Findings
from mixlab.report._numbers import bounds, number, percent
from mixlab.report._words import text_share

SIGNS = {
    "loss": "▼ loss",
    "gain": "▲ gain",
    "no loss": "● no loss",
    "undetermined": "? undetermined",
}


def glance(f: Findings) -> Table:
    """One row a recipe that has a part in the answer, one cell a skill: loss, interval, word."""
    focus = [f.roles.none, *f.roles.same_format, f.roles.diverse, f.roles.dilution]
    seen: dict[str, Recipe] = {r.key: r for r in focus if r is not None}
    seen.update({r.key: r for r in f.arms if r.kind in ("twin", "placebo")})
    keep = [line for line in f.lines if line is not f.vision]
    rows = []
    for r in seen.values():
        cells = [r.label, percent(text_share(f, r)), str(len(r.runs))]
        for line in keep:
            x = f.loss(r, line.key)
            cells.append(
                f"{number(x.estimate.estimate)}\n{bounds(x.estimate)}\n{SIGNS[x.word]}"
                if x
                else "–"
            )
        cells.append(_vision_cell(f, r))
        rows.append(cells)
    head = ["Recipe", "Text", "Seeds", *[line.label for line in keep], "Vision score"]
    return Table(head, rows, [False, True, True, *[True] * (len(keep) + 1)])


def _vision_cell(f: Findings, recipe: Recipe) -> str:
    for r, line, e in f.scores:
        if f.vision is not None and line.key == f.vision.key and r.key == recipe.key:
            above = next((x for a, x in f.above if a.key == recipe.key), None)
            tail = f"\n{number(above.estimate)} above floor" if above else ""
            return f"{number(e.estimate)}\n{bounds(e)}{tail}"
    return "–"


def contrasts(f: Findings) -> Table:
    """All contrasts between recipes."""
    rows = []
    for i, (_, c) in enumerate(f.contrasts):
        e = c.estimate
        rows.append(
            [
                f"{c.first.label} − {c.second.label}",
                c.line.label,
                number(e.estimate),
                number(e.low),
                number(e.high),
                bounds(e.over_items) if e.over_items else "–",
                c.word,
                number(e.p, 4),
                number(f.adjusted[i], 4) if i in f.adjusted else "–",
                number(e.df, 1),
                str(e.n_seeds),
                str(e.n_items),
                number(e.detectable),
            ]
        )
    head = ["Contrast", "Skill", "Difference", "Low", "High", "Also over items", "Word", "p"]
    head += ["p (Holm)", "df", "Seeds", "Items", "Smallest detectable"]
    return Table(head, rows, [False, False, *[True] * 4, False, *[True] * 6])


def churns(f: Findings) -> Table:
    """Items lost and gained against the reference, beside what a retraining alone changes."""
    rows = [
        [
            c.recipe.label,
            c.line.label,
            number(c.lost),
            number(c.gained),
            number(c.net),
            number(c.floor) if c.floor is not None else "one seed",
            str(c.n_items),
        ]
        for c in f.churns
    ]
    head = ["Recipe", "Skill", "Lost", "Gained", "Net", "Churn floor", "Items"]
    return Table(head, rows, [False, False, *[True] * 5])


def protocols(f: Findings) -> Table | None:
    """Loss under each protocol alone."""
    if not f.protocols:
        return None
    rows = [
        [
            r.label,
            line.label,
            name,
            number(x.estimate.estimate),
            number(x.estimate.low),
            number(x.estimate.high),
            x.word,
        ]
        for r, line, name, x in f.protocols
    ]
    head = ["Recipe", "Skill", "Protocol", "Loss", "Low", "High", "Word"]
    return Table(head, rows, [False, False, False, True, True, True, False])


def joints(f: Findings) -> Table:
    """J, J0 and J - J0 of each merged recipe, or why undefined."""
    rows = []
    for c in f.curves:
        j = c.joint
        if j is None:
            rows.append([c.recipe.label, str(len(c.recipe.runs)), "–", "–", "–", "–", "–", c.why])
            continue
        rows.append(
            [
                c.recipe.label,
                str(len(c.recipe.runs)),
                ", ".join(f"{a:g}" for a in j.alphas),
                f"{number(j.joint.estimate, 2)} {bounds(j.joint, 2)}",
                f"{number(j.chord.estimate, 2)} {bounds(j.chord, 2)}",
                f"{number(j.excess.estimate, 2)} {bounds(j.excess, 2)}",
                f"{number(j.text_back)} / {number(j.vision_cost)}",
                j.joint.method,
            ]
        )
    head = ["Recipe", "Seeds", "alpha by seed", "J", "J0", "J − J0", "Text back / vision cost", ""]
    head[-1] = "Method, or why undefined"
    return Table(head, rows, [False, True, True, True, True, True, True, False])


def receipts(f: Findings) -> Table | None:
    """What was asked of each source and format, and what was trained on; seeds averaged."""
    found = f.study.receipts
    if found.empty:
        return None
    label = {run: r for r in [*f.arms, *f.trials] for run in r.runs}
    table = found.loc[found["run"].isin(label)].copy()
    if table.empty:
        return None
    table["recipe"] = [label[run].key for run in table["run"]]
    names = {r.key: r for r in label.values()}
    sums = table.groupby("recipe")["realised_supervised"].transform("sum")
    runs = table.groupby("recipe")["run"].transform("nunique")
    table["share"] = table["realised_supervised"] / sums * runs
    keys = ["recipe", "source", "modality", "format"]
    means = table.groupby(keys, sort=False, dropna=False).agg(
        requested=("requested", "mean"),
        share=("share", "mean"),
        rows=("realised_rows", "mean"),
        tokens=("realised_tokens", "mean"),
        supervised=("realised_supervised", "mean"),
        passes=("passes", "mean"),
        dropped=("dropped", "mean"),
        reason=("reason", _reasons),
    )
    rows = []
    for m in means.reset_index().to_dict("records"):
        if not m["supervised"] and not m["dropped"]:
            continue
        rows.append(
            [
                names[m["recipe"]].label,
                str(m["source"]),
                str(m["modality"]),
                str(m["format"]),
                percent(m["requested"]),
                percent(m["share"]),
                number(m["supervised"], 0),
                number(m["tokens"], 0),
                number(m["rows"], 0),
                number(m["passes"], 2),
                number(m["dropped"], 0),
                str(m["reason"]),
            ]
        )
    head = ["Recipe", "Source", "Modality", "Format", "Asked for", "Realised", "Supervised tokens"]
    head += ["All tokens", "Rows", "Passes", "Dropped", "Why dropped"]
    return Table(head, rows, [False] * 4 + [True] * 7 + [False])


def _reasons(cells: pd.Series) -> str:
    return ", ".join(sorted({str(c) for c in cells.dropna() if str(c)}))


def trials(f: Findings) -> Table:
    """Every recipe that was trained: shares, formats, scores on dev (objective) and on test."""
    rows = []
    dev: dict[str, dict[Any, Any]] = {}
    if not f.study.trials.empty:
        for row in f.study.trials.to_dict("records"):
            dev[str(row.get("recipe"))] = row
    places = {p.recipe.key: p for p in f.places}
    every = {r.key: r for r in [*f.arms, *f.trials]} | {p.recipe.key: p.recipe for p in f.places}
    for r in every.values():
        s, p, d = f.shares[r.key], places.get(r.key), dev.get(r.key, {})
        mix = ", ".join(f"{k} {percent(v, 0)}" for k, v in sorted(s.formats.items()))
        rows.append(
            [
                str(d.get("number", "–")),
                r.label,
                r.kind,
                ", ".join(str(x) for x in r.seeds),
                percent(s.requested),
                percent(s.supervised),
                percent(s.tokens),
                percent(s.rows),
                mix or "–",
                _points(d.get("text")),
                _points(d.get("vision")),
                number(p.text) if p and p.split == "test" else "–",
                number(p.vision) if p and p.split == "test" else "–",
                "yes" if p and p.front else "no",
                str(d.get("state", "–")),
                str(d.get("source", "–")),
            ]
        )
    for key, d in dev.items():
        if key not in every:
            params = d.get("params")
            said = params if isinstance(params, str) else json.dumps(params, default=str)
            rows.append(
                [str(d.get("number", "–")), str(d.get("arm", key)), "trial", "–"]
                + ["–"] * 4
                + [said, _points(d.get("text")), _points(d.get("vision")), "–", "–", "no"]
                + [str(d.get("state", "–")), str(d.get("source", "–"))]
            )
    head = ["Trial", "Recipe", "Kind", "Seeds", "Text asked for", "of supervised", "of tokens"]
    head += ["of rows", "Formats", "Text (dev)", "Vision (dev)", "Text (test)", "Vision (test)"]
    head += ["Front", "State", "Source"]
    kinds = [True, False, False, False, *[True] * 4, False, *[True] * 4, False, False, False]
    return Table(head, rows, kinds)


def _points(value: object) -> str:
    try:
        return number(100 * float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "–"


def runs(f: Findings) -> Table:
    """Digests and figures of every run."""
    wanted = {
        "run": "Run",
        "arm": "Recipe",
        "seed": "Seed",
        "recipe": "Recipe digest",
        "plan": "Plan digest",
        "weights": "Weights digest",
        "steps": "Steps",
        "supervised_tokens": "Supervised tokens",
        "rows": "Rows",
        "distinct_rows": "Distinct rows",
        "total_tokens": "Tokens",
        "learning_rate": "Learning rate",
        "train_seconds": "Seconds",
        "final_loss": "Final loss",
    }
    frame = f.study.runs
    columns = [c for c in wanted if c in frame.columns]
    rows = [[_cell(c, row[c]) for c in columns] for row in frame.to_dict("records")]
    text = {"run", "arm", "recipe", "plan", "weights"}
    return Table([wanted[c] for c in columns], rows, [c not in text for c in columns])


def _cell(column: str, value: object) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    if column in ("plan", "weights", "recipe", "run"):
        return str(value)[:16]
    if column == "learning_rate":
        return f"{value:g}"
    if column in ("train_seconds", "final_loss") and isinstance(value, int | float):
        return number(float(value), 1 if column == "train_seconds" else 3)
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def line_names(found: list[Line]) -> str:
    """Labels of lines, in a row."""
    return ", ".join(line.label for line in found)
