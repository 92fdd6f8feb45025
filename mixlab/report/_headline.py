"""The answer in one sentence."""

from __future__ import annotations

from markupsafe import Markup

from mixlab.attribute import Loss, MergeCurve, Recipe
from mixlab.report._findings import Findings
from mixlab.report._numbers import data
from mixlab.report._words import (
    low,
    series,
    share_words,
    text_share,
)


def headline(f: Findings) -> Markup:
    """One sentence: what no text loses, what text keeps, what a merge brings back."""
    none, mixed = f.roles.none, f.roles.mixed
    if not f.arms and not f.trials:
        return Markup("No arm has been scored on test yet; let the sweep run to its end.")
    if none is None:
        return Markup(
            "This study has no arm without text, so it cannot say what text in the mix keeps."
        )
    lost, kept = _lost_lines(f, none), _lost_lines(f, none, "no loss")
    if not lost:
        if len(kept) == len(f.text):
            return Markup(
                "Training without text lost none of the text skills: there is nothing to keep."
            )
        return Markup("Whether training without text loses text skills is undetermined here.")
    first = Markup("Training without text lost {}").format(
        series([low(x.line.label) for x in lost])
    )
    parts = [first, _text_clause(f, mixed), _merge_clause(f.curve(none))]
    return Markup("; ").join([p for p in parts if p]) + Markup(".")


def _lost_lines(f: Findings, recipe: Recipe | None, word: str = "loss") -> list[Loss]:
    found = [f.loss(recipe, line.key) for line in f.text]
    return [x for x in found if x is not None and x.word == word]


def _text_clause(f: Findings, mixed: Recipe | None) -> Markup:
    found = f.sufficient.recipe
    if found is not None and text_share(f, found) > 0:
        return Markup("{} text is shown to keep all of it within {} points").format(
            share_words(f, found), f"{f.study.margin:g}"
        )
    c = f.contrast("text", "text")
    if mixed is None or c is None:
        return Markup("no arm with text was run beside it")
    if c.word == "higher":
        return Markup("{} text keeps part of it, not shown to keep all").format(
            share_words(f, mixed)
        )
    if c.word == "undetermined":
        return Markup("whether {} text keeps any of it is undetermined").format(
            share_words(f, mixed)
        )
    return Markup("{} text kept none of it").format(share_words(f, mixed))


def _merge_clause(curve: MergeCurve | None) -> Markup:
    if curve is None:
        return Markup("no merge with the reference was scored")
    if curve.joint is None:
        return Markup("what a merge with the reference brings back is undetermined")
    j = curve.joint
    key = f"joint|{curve.recipe.key}"
    return Markup(
        "a merge with the reference reaches J = {}, beside {} on the straight chord"
    ).format(
        data(j.joint.estimate, f"{key}|J|estimate", 2),
        data(j.chord.estimate, f"{key}|J0|estimate", 2),
    )
