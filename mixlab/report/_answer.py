"""The answer in words. What the tables say, whatever it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from mixlab.attribute import Contrast, Loss, MergeCurve, Recipe
from mixlab.report._findings import Findings
from mixlab.report._numbers import data, interval, percent, seeds
from mixlab.report._safe import arm, user

Part = tuple[str, list[Markup]]


def series(parts: Sequence[Markup | str], word: str = "and", mark: str = ", ") -> Markup:
    """`a, b and c`."""
    items = [Markup("{}").format(p) for p in parts]
    if len(items) < 2:
        return Markup("").join(items)
    comma = "" if mark == ", " else mark.strip()
    return Markup("{}{} {} {}").format(Markup(mark).join(items[:-1]), comma, word, items[-1])


def low(label: str) -> str:
    """A line's label inside a sentence: `Knowledge, rehearsed` becomes `rehearsed knowledge`."""
    head, _, tail = label.partition(", ")
    head = head[:1].lower() + head[1:]
    return f"{tail} {head}" if tail else head


def text_share(f: Findings, recipe: Recipe) -> float:
    """Realised share of supervised tokens from text; the requested one when not recorded."""
    s = f.shares[recipe.key]
    return s.requested if math.isnan(s.supervised) else s.supervised


def share_words(f: Findings, recipe: Recipe) -> Markup:
    """The realised share as a keyed number."""
    return data(100 * text_share(f, recipe), f"share|{recipe.key}", 1, "%")


def loss_key(x: Loss) -> str:
    """The key under which a loss stands in the page."""
    return f"loss|{x.recipe.key}|{x.line.key}"


def contrast_key(name: str, c: Contrast) -> str:
    """The key under which a contrast stands in the page."""
    return f"contrast|{c.first.key}|{c.second.key}|{c.line.key}"


def contrast_words(name: str, c: Contrast) -> Markup:
    """`+12.3 points [10.1, 14.5] (higher)`, and how small an effect was in reach if open."""
    out = Markup("{} points ({}").format(interval(c.estimate, contrast_key(name, c)), c.word)
    if c.word == "undetermined" and math.isfinite(c.estimate.detectable):
        key = f"{contrast_key(name, c)}|detectable"
        out += Markup("; smallest detectable effect {} points").format(
            data(c.estimate.detectable, key)
        )
    return out + Markup(")")


def _lost_lines(f: Findings, recipe: Recipe | None, word: str = "loss") -> list[Loss]:
    found = [f.loss(recipe, line.key) for line in f.text]
    return [x for x in found if x is not None and x.word == word]


def headline(f: Findings) -> Markup:
    """One sentence: what no text loses, what text keeps, what a merge brings back."""
    none, mixed = f.roles.none, f.roles.mixed
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


def answer(f: Findings) -> list[Part]:
    """Titled groups of sentences, in the order of the question."""
    parts = [
        ("What was lost", _lost(f)),
        ("How much text", _how_much(f)),
        ("In which output formats", _formats(f)),
        ("What vision paid", _vision(f)),
        ("Does a merge bring it back", _merge(f)),
        ("What stays open", _open(f)),
    ]
    return [(title, found) for title, found in parts if found]


def _who(f: Findings, recipe: Recipe) -> Markup:
    return Markup("{} ({})").format(arm(recipe.label), seeds(len(recipe.runs)))


def _lost(f: Findings) -> list[Markup]:
    none = f.roles.none
    if none is None:
        return [Markup("No arm without text was trained, so its loss is not measured.")]
    rows = [x for line in f.lines if line.is_text and (x := f.loss(none, line.key))]
    said = [
        Markup("{} {} ({})").format(low(x.line.label), interval(x.estimate, loss_key(x)), x.word)
        for x in rows
    ]
    out = [
        Markup("{} lost against its reference, in points: {}.").format(
            _who(f, none), series(said, mark="; ")
        )
    ]
    if len(none.runs) < 2:
        out.append(
            Markup(
                "One seed compares two checkpoints, never two recipes: another seed may differ by "
                "more than these intervals say."
            )
        )
    for line in f.lines:
        x = f.loss(none, line.key)
        if line.construct == "control" and x:
            out.append(
                Markup("The negative control, which no arm should touch, moved by {} ({}).").format(
                    interval(x.estimate, loss_key(x)), x.word
                )
            )
    return out + _beside(f)


def _beside(f: Findings) -> list[Markup]:
    """What arms that see no images, and placebos, lose."""
    said = {
        "twin": "{}, with the same steps, tokens and formats and no images, lost {} points ({}) "
        "of the mean text score.",
        "placebo": "{}, the reference itself under other wordings, moved by {} points ({}).",
    }
    found = [x for x in f.overall if x.recipe.kind in said]
    out = [
        Markup(said[x.recipe.kind]).format(
            _who(f, x.recipe), interval(x.estimate, loss_key(x)), x.word
        )
        for x in found
    ]
    if any(x.recipe.kind == "twin" and x.word == "loss" for x in found):
        out.append(Markup("What the text twin loses too is no effect of images."))
    return out


def _how_much(f: Findings) -> list[Markup]:
    out = []
    mixed, none = f.roles.mixed, f.roles.none
    c = f.contrast("text", "text")
    if mixed is not None and none is not None and c is not None:
        s = Markup(
            "With {} of supervised tokens from text, {} scores on the mean of text "
            "constructs, against no text, {}."
        ).format(share_words(f, mixed), _who(f, mixed), contrast_words("text", c))
        out.append(s)
        d, beyond = f.contrast("dilution", "text"), f.contrast("text beyond dilution", "text")
        if d is not None and beyond is not None:
            out.append(
                Markup(
                    "Less vision training alone (the dilution arm) does {}; text beyond "
                    "dilution does {}."
                ).format(
                    contrast_words("dilution", d), contrast_words("text beyond dilution", beyond)
                )
            )
        else:
            out.append(
                Markup(
                    "No dilution arm was scored, so part of this may be less vision training "
                    "rather "
                    "than text."
                )
            )
        left = [x for line in f.text if (x := f.loss(mixed, line.key))]
        said = [
            Markup("{} {} ({})").format(
                low(x.line.label), interval(x.estimate, loss_key(x)), x.word
            )
            for x in left
        ]
        out.append(
            Markup("Still lost with that much text, in points: {}.").format(series(said, mark="; "))
        )
        out += _rehearsal(f)
    s2 = f.sufficient
    tested = series([percent(x) for x in s2.tested])
    if s2.recipe is not None:
        out.append(
            Markup(
                "Of the shares tested with two seeds or more ({}), {} is the least one shown "
                "to keep "
                "every text construct within {} points."
            ).format(tested, share_words(f, s2.recipe), f"{s2.margin:g}")
        )
    elif s2.failed is not None:
        out.append(
            Markup(
                "No share tested with two seeds or more ({}) is shown to keep every text construct "
                "within {} points; the largest, {}, fails on {}."
            ).format(
                tested,
                f"{s2.margin:g}",
                share_words(f, s2.failed),
                series([low(x) for x in s2.lines]),
            )
        )
    else:
        out.append(
            Markup(
                "No share of text was tested with two seeds or more, so none can be named as "
                "enough."
            )
        )
    single = [
        r
        for r in f.roles.same_format
        if len(r.runs) < 2 and text_share(f, r) > 0 and f.loss(r, "text")
    ]
    if single:
        said = []
        for r in sorted(single, key=lambda r: text_share(f, r)):
            x = f.loss(r, "text")
            if x:
                said.append(
                    Markup("{} text {}").format(
                        share_words(f, r), interval(x.estimate, loss_key(x))
                    )
                )
        out.append(
            Markup(
                "Shares tested with one seed only, mean loss of text in points (checkpoints, not "
                "recipes): {}."
            ).format(series(said, mark="; "))
        )
    return out


def _rehearsal(f: Findings) -> list[Markup]:
    out = []
    for line in f.lines:
        if not line.key.endswith("/rehearsed"):
            continue
        a = f.contrast("text", line.key)
        b = f.contrast("text", f"{line.construct}/tested")
        if a is None or b is None:
            continue
        if b.word == "higher":
            tail = "so what text keeps is not mere rehearsal"
        elif a.word == "higher":
            tail = "so what text keeps may be mere rehearsal"
        else:
            tail = "neither speaks for rehearsal"
        out.append(
            Markup(
                "Facts that stood in the text rows changed by {}, facts that stood in no arm "
                "by {}: {}."
            ).format(contrast_words("text", a), contrast_words("text", b), tail)
        )
    return out


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
        return [Markup("No merge with the reference was scored.")]
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
