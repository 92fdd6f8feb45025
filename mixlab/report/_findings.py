"""Everything that the page says, as numbers: one pass over the study's tables."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from mixlab.attribute import (
    Churn,
    Contrast,
    Estimate,
    FormatEffect,
    Line,
    Loss,
    MergeCurve,
    Recipe,
    Sufficient,
    UnpairedError,
    above_floor,
    alphas_of,
    churn,
    contrast,
    format_effects,
    holm,
    least_sufficient_text,
    lines,
    loss_on,
    merge_curve,
    pareto,
    recipes,
    score_of,
    text_contrast,
    text_lines,
    text_loss,
)
from mixlab.report._read import Study
from mixlab.report._shares import Shares, parse_formats, shares_of

NO_ARM = ("reference", "start")


@dataclass(frozen=True)
class Place:
    """A recipe in the plane of text and vision, points on `split`, and whether nothing beats it."""

    recipe: Recipe
    text: float
    vision: float
    split: str
    front: bool


@dataclass(frozen=True)
class Roles:
    """The recipes that answer the question: which is which."""

    none: Recipe | None
    mixed: Recipe | None
    dilution: Recipe | None
    diverse: Recipe | None
    diverse_partner: Recipe | None
    same_format: tuple[Recipe, ...]


@dataclass(frozen=True)
class Findings:
    """All results of a study; `notes` say what could not be computed, and why."""

    study: Study
    lines: list[Line]
    text: list[Line]
    vision: Line | None
    arms: list[Recipe]
    trials: list[Recipe]
    start: Recipe | None
    shares: dict[str, Shares]
    roles: Roles
    losses: list[Loss]
    overall: list[Loss]
    scores: list[tuple[Recipe, Line, Estimate]]
    contrasts: list[tuple[str, Contrast]]
    adjusted: dict[int, float]
    above: list[tuple[Recipe, Estimate]]
    churns: list[Churn]
    sufficient: Sufficient
    effects: list[FormatEffect]
    no_effects: str
    places: list[Place]
    curves: list[MergeCurve]
    protocols: list[tuple[Recipe, Line, str, Loss]]
    notes: list[str] = field(default_factory=list)

    def loss(self, recipe: Recipe | None, key: str) -> Loss | None:
        """The loss of one recipe on one line (`text` is the mean of constructs)."""
        if recipe is None:
            return None
        pool = self.overall if key == "text" else self.losses
        return next(
            (x for x in pool if x.recipe.key == recipe.key and x.line.key == key),
            None,
        )

    def contrast(self, name: str, key: str) -> Contrast | None:
        """A named contrast on one line."""
        return next((c for n, c in self.contrasts if n == name and c.line.key == key), None)

    def curve(self, recipe: Recipe | None) -> MergeCurve | None:
        """The merge curve of one recipe."""
        if recipe is None:
            return None
        return next((c for c in self.curves if c.recipe.key == recipe.key), None)


def _share(shares: dict[str, Shares], recipe: Recipe) -> float:
    value = shares[recipe.key].supervised
    return shares[recipe.key].requested if math.isnan(value) else value


def _roles(arms: list[Recipe], shares: dict[str, Shares], runs: pd.DataFrame) -> Roles:
    base = [r for r in arms if r.kind == "baseline"]
    mixes = {r.key: _asked(r, runs) for r in base}
    none_all = [r for r in base if shares[r.key].requested == 0]
    none = min(none_all, key=lambda r: (len(mixes[r.key]), -len(r.runs)), default=None)
    same = [r for r in base if none is not None and mixes[r.key] == mixes[none.key]]
    some = [r for r in same if shares[r.key].requested > 0]
    mixed = min(
        some, key=lambda r: (-len(r.runs), abs(shares[r.key].requested - 0.25)), default=None
    )
    dilutions = [r for r in arms if r.kind == "dilution"]
    dilution = max(dilutions, key=lambda r: len(r.runs), default=None)
    if dilution is not None and none is not None and some:
        full = shares[none.key].supervised_tokens
        left = 1 - shares[dilution.key].supervised_tokens / full if full else math.nan
        if not math.isnan(left):
            most = max(len(r.runs) for r in some)
            mixed = min(
                (r for r in some if len(r.runs) == most),
                key=lambda r: abs(shares[r.key].requested - left),
            )
    others = [r for r in base if none is not None and len(mixes[r.key]) > len(mixes[none.key])]
    diverse = max(others, key=lambda r: len(r.runs), default=None)
    partner = None
    if diverse is not None:
        partner = min(
            same,
            key=lambda r: abs(shares[r.key].requested - shares[diverse.key].requested),
            default=None,
        )
        if partner and abs(shares[partner.key].requested - shares[diverse.key].requested) > 0.01:
            partner = None
    same.sort(key=lambda r: shares[r.key].requested)
    return Roles(none, mixed, dilution, diverse, partner, tuple(same))


def _asked(recipe: Recipe, runs: pd.DataFrame) -> tuple[tuple[str, float], ...]:
    row = runs.loc[runs["run"] == recipe.runs[0]].iloc[0]
    shares = parse_formats(row.get("formats"))
    return tuple(sorted((k, round(v, 6)) for k, v in shares.items() if v > 0))


def find(study: Study) -> Findings:
    """Compute all findings of a study. Raises `MixlabError` when compared runs lack items."""
    plain = study.best.loc[study.best["operator"] == "none"]
    test = plain.loc[plain["split"] == "test"]
    if not (test["run"] == "reference").any():
        raise UnpairedError(
            f"{study.folder} has no test scores of the reference; let the sweep run to its end"
        )
    scored = set(test["run"].unique())
    every = recipes(study.runs)
    present = [_only(r, scored) for r in every if scored & set(r.runs)]
    start = next((r for r in present if r.kind == "start"), None)
    body = [r for r in present if r.kind not in NO_ARM]
    arms = [r for r in body if r.kind != "trial"]
    trials = [r for r in body if r.kind == "trial"]
    sighted = [r for r in body if r.kind not in ("twin", "placebo")]
    shares = {r.key: shares_of(r, study.runs, study.receipts) for r in every}
    found = lines(test)
    vision = next((line for line in found if line.construct == "vision"), None)
    skills = [line for line in found if line is not vision]
    text = text_lines(found)
    roles = _roles(arms, shares, study.runs)
    notes: list[str] = []
    frame = {c: test.loc[test["construct"] == c] for c in test["construct"].unique()}
    margin = study.margin

    judged = [*([start] if start else []), *body]
    losses = [
        loss_on(frame[line.construct], r, line, margin=margin) for r in judged for line in skills
    ]
    overall = [text_loss(test, r, text, margin=margin) for r in judged] if text else []
    scores = [(r, line, score_of(frame[line.construct], r, line)) for r in judged for line in found]
    contrasts = _contrasts(test, frame, roles, found, text, margin)
    family = [i for i, (name, c) in enumerate(contrasts) if name == "text" and c.line in found]
    adjusted = dict(zip(family, holm([contrasts[i][1].estimate.p for i in family]), strict=True))
    above = []
    if vision is not None:
        for r in judged:
            try:
                above.append((r, above_floor(frame["vision"], r, vision)))
            except UnpairedError as error:
                notes.append(f"Floor of {r.label}: {error}")
    churns = [churn(frame[line.construct], r, line) for r in arms for line in skills]
    same = {r.key: _share(shares, r) for r in roles.same_format}
    sufficient = least_sufficient_text([x for x in losses if x.line in text], same, margin)
    effects, no_effects = _effects(body, shares, scores, text, vision)
    return Findings(
        study,
        found,
        text,
        vision,
        arms,
        trials,
        start,
        shares,
        roles,
        losses,
        overall,
        scores,
        contrasts,
        adjusted,
        above,
        churns,
        sufficient,
        effects,
        no_effects,
        _places(sighted, every, overall, scores, vision, study.trials),
        _curves(study, [*arms, *trials], text, vision, notes),
        _by_protocol(study, arms, skills),
        notes,
    )


def _only(recipe: Recipe, scored: set[str]) -> Recipe:
    kept = [i for i, run in enumerate(recipe.runs) if run in scored]
    return replace(
        recipe,
        runs=tuple(recipe.runs[i] for i in kept),
        seeds=tuple(recipe.seeds[i] for i in kept),
    )


def _contrasts(
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


def _effects(
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
            "text": _share(shares, r),
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


def _places(
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


def _curves(
    study: Study,
    body: list[Recipe],
    text: list[Line],
    vision: Line | None,
    notes: list[str],
) -> list[MergeCurve]:
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


def _by_protocol(
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
