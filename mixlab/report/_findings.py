"""Everything that the page says, as numbers: one pass over the study's tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
    churn,
    holm,
    least_sufficient_text,
    lines,
    loss_on,
    recipes,
    score_of,
    text_lines,
    text_loss,
)
from mixlab.report._comparisons import (
    Place,
    by_protocol,
    contrasts,
    curves_of,
    effects_of,
    places_of,
)
from mixlab.report._read import Study
from mixlab.report._roles import Roles, roles_of, text_share_of
from mixlab.report._shares import Shares, shares_of

NO_ARM = ("reference", "start")


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

    @property
    def no_curves(self) -> str:
        """Why there are no merge curves; empty where there are some."""
        if self.curves:
            return ""
        if not (self.study.best["operator"] == "merge").any():
            return "No merge with the reference was scored."
        if self.vision is None:
            return "Merges were scored, but V and J need a vision task, and this study has none."
        return "Merges were scored, but no curve can be drawn; the limits below say why."

    def curve(self, recipe: Recipe | None) -> MergeCurve | None:
        """The merge curve of one recipe."""
        if recipe is None:
            return None
        return next((c for c in self.curves if c.recipe.key == recipe.key), None)


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
    roles = roles_of(arms, shares, study.runs)
    notes: list[str] = []
    unread = len(every) - len(present)
    if unread:
        notes.append(
            f"{unread} recipes have no test scores and are left out of all comparisons; where the "
            "sweep confirms only some of its trials, or has not ended, this is as it should be."
        )
    frame = {c: test.loc[test["construct"] == c] for c in test["construct"].unique()}
    margin = study.margin

    judged = [*([start] if start else []), *body]
    losses = [
        loss_on(frame[line.construct], r, line, margin=margin) for r in judged for line in skills
    ]
    overall = [text_loss(test, r, text, margin=margin) for r in judged] if text else []
    # The placebo is the reference in other words: a language model, which is shown no images.
    scores = [
        (r, line, score_of(frame[line.construct], r, line))
        for r in judged
        for line in (skills if r.kind == "placebo" else found)
    ]
    compared = contrasts(test, frame, roles, found, text, margin)
    family = [i for i, (name, c) in enumerate(compared) if name == "text" and c.line in found]
    adjusted = dict(zip(family, holm([compared[i][1].estimate.p for i in family]), strict=True))
    above = []
    if vision is not None:
        for r in judged:
            if r.kind == "placebo":
                continue
            try:
                above.append((r, above_floor(frame["vision"], r, vision)))
            except UnpairedError as error:
                notes.append(f"Floor of {r.label}: {error}")
    churns = [churn(frame[line.construct], r, line) for r in arms for line in skills]
    same = {r.key: text_share_of(shares, r) for r in roles.same_format}
    sufficient = least_sufficient_text([x for x in losses if x.line in text], same, margin)
    effects, no_effects = effects_of(body, shares, scores, text, vision)
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
        compared,
        adjusted,
        above,
        churns,
        sufficient,
        effects,
        no_effects,
        places_of(sighted, every, overall, scores, vision, study.trials),
        curves_of(study, [*arms, *trials], text, vision, notes),
        by_protocol(study, arms, skills),
        notes,
    )


def _only(recipe: Recipe, scored: set[str]) -> Recipe:
    kept = [i for i, run in enumerate(recipe.runs) if run in scored]
    return replace(
        recipe,
        runs=tuple(recipe.runs[i] for i in kept),
        seeds=tuple(recipe.seeds[i] for i in kept),
    )
