"""The answer in words. What the tables say, whatever it is."""

from __future__ import annotations

from markupsafe import Markup

from mixlab.attribute import MergeCurve
from mixlab.report._answer_text import how_much, lost
from mixlab.report._findings import Findings
from mixlab.report._numbers import data, interval, seeds
from mixlab.report._safe import arm, user
from mixlab.report._words import (
    contrast_words,
    loss_key,
    low,
    series,
    share_words,
)

Part = tuple[str, list[Markup]]


def answer(f: Findings) -> list[Part]:
    """Titled groups of sentences, in the order of the question."""
    parts = [
        ("What was lost", lost(f)),
        ("How much text", how_much(f)),
        ("In which output formats", _formats(f)),
        ("What vision paid", _vision(f)),
        ("Does a merge bring it back", _merge(f)),
        ("What stays open", _open(f)),
    ]
    return [(title, found) for title, found in parts if found]


def _formats(f: Findings) -> list[Markup]:
    out = []
    c = f.contrast("diverse formats", "text")
    if c is not None:
        out.append(
            Markup(
                "{} against {}, the same share of text in other output formats: {} on the mean of "
                "text constructs."
            ).format(arm(c.first.label), arm(c.second.label), contrast_words("diverse formats", c))
        )
    if f.effects:
        sure = [e for e in f.effects if e.estimate.low > 0 or e.estimate.high < 0]
        said = [
            Markup("{} for <q>{}</q>: {} points").format(
                low(e.line.label),
                user(e.format),
                interval(e.estimate, f"format|{e.format}|{e.line.key}"),
            )
            for e in sure
        ]
        base = user(f.effects[0].base)
        if said:
            out.append(
                Markup(
                    "Across {} recipes, moving ten points of share from <q>{}</q> changes {}; the "
                    "other effects include 0."
                ).format(f.effects[0].estimate.n_seeds, base, series(said))
            )
        else:
            widest = max(f.effects, key=lambda e: e.estimate.detectable)
            out.append(
                Markup(
                    "Across {} recipes, no format's effect leaves 0 out; per ten points of "
                    "share moved "
                    "from <q>{}</q>, the largest smallest detectable effect is {} points."
                ).format(
                    f.effects[0].estimate.n_seeds,
                    base,
                    data(
                        widest.estimate.detectable,
                        f"format|{widest.format}|{widest.line.key}|detectable",
                    ),
                )
            )
    else:
        out.append(Markup("Effects of single formats are not estimated: {}.").format(f.no_effects))
    out.append(
        Markup(
            "A batch holds equal supervised tokens, so formats differ in rows; no equal-rows "
            "variant was "
            "run, and these differences are seen, not claimed."
        )
    )
    return out


def _vision(f: Findings) -> list[Markup]:
    if f.vision is None:
        return [Markup("Vision was not scored.")]
    out = []
    key = f.vision.key
    c, d = f.contrast("text", key), f.contrast("dilution", key)
    if c is not None and f.roles.mixed is not None:
        s = Markup("At the same total budget, {} text changed vision by {}").format(
            share_words(f, f.roles.mixed), contrast_words("text", c)
        )
        if d is not None:
            s += Markup("; the dilution arm's smaller vision budget alone by {}").format(
                contrast_words("dilution", d)
            )
        out.append(s + Markup("."))
    said = []
    for recipe, e in f.above:
        if recipe.key in {getattr(r, "key", "") for r in (f.roles.none, f.roles.mixed)}:
            said.append(
                Markup("{} {}").format(arm(recipe.label), interval(e, f"floor|{recipe.key}"))
            )
    if said:
        out.append(Markup("Points above the floor of permuted images: {}.").format(series(said)))
    return out


def _merge(f: Findings) -> list[Markup]:
    wanted = [f.curve(f.roles.none), f.curve(f.roles.mixed)]
    curves = [c for c in wanted if c is not None] or f.curves[:2]
    if not curves:
        return [Markup("{}").format(f.no_curves)]
    return [_merge_words(c, f.study.margin) for c in curves]


def _why(c: MergeCurve, margin: float) -> Markup:
    if c.loss.low > margin:
        return Markup("{}").format(c.why)
    return Markup(
        "R and J are undefined, for there is no loss surely above {} points to bring back "
        "(loss of text {})"
    ).format(f"{margin:g}", interval(c.loss, f"loss|{c.recipe.key}|text"))


def _merge_words(c: MergeCurve, margin: float) -> Markup:
    if c.joint is None:
        return Markup("{}: {}.").format(arm(c.recipe.label), _why(c, margin))
    j, key = c.joint, f"joint|{c.recipe.key}"
    if j.excess.low > 0:
        verdict = "better than the straight chord"
    elif j.excess.high < 0:
        verdict = "worse than the straight chord"
    else:
        verdict = "not told apart from the straight chord"
    return Markup(
        "{} ({}): at alpha {} (chosen on dev; alpha 1 is the VLM untouched) the merge brings "
        "back {} points "
        "of text and costs {} points of vision. J = {}, J0 = {}, J − J0 = {}: {}."
    ).format(
        arm(c.recipe.label),
        seeds(len(c.recipe.runs)),
        series([f"{a:g}" for a in sorted(set(j.alphas))]),
        data(j.text_back, f"{key}|text_back"),
        data(j.vision_cost, f"{key}|vision_cost"),
        interval(j.joint, f"{key}|J", 2),
        data(j.chord.estimate, f"{key}|J0|estimate", 2),
        interval(j.excess, f"{key}|excess", 2),
        verdict,
    )


def _open(f: Findings) -> list[Markup]:
    focus = [r for r in (f.roles.none, f.roles.mixed, f.roles.dilution) if r is not None]
    open_ = [
        x
        for r in focus
        for line in f.lines
        if (x := f.loss(r, line.key)) and x.word == "undetermined"
    ]
    if not open_:
        return []
    shown = sorted(open_, key=lambda x: -x.estimate.detectable)[:4]
    said = [
        Markup("{} of {}: {}, smallest detectable effect {} points").format(
            low(x.line.label),
            arm(x.recipe.label),
            interval(x.estimate, loss_key(x)),
            data(x.estimate.detectable, f"{loss_key(x)}|detectable"),
        )
        for x in shown
    ]
    if len(open_) > len(shown):
        said.append(Markup("and {} more, with smaller ones").format(len(open_) - len(shown)))
    return [
        Markup("Losses that are neither shown nor ruled out within {} points: {}.").format(
            f"{f.study.margin:g}", Markup("; ").join(said)
        )
    ]
