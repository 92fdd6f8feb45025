"""What was lost without text, and how much text keeps it."""

from __future__ import annotations

from markupsafe import Markup

from mixlab.report._findings import Findings
from mixlab.report._numbers import interval, percent
from mixlab.report._words import (
    contrast_words,
    loss_key,
    low,
    series,
    share_words,
    text_share,
    who,
)


def lost(f: Findings) -> list[Markup]:
    """Loss of each text skill without text, the control, twins and placebos."""
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
            who(f, none), series(said, mark="; ")
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
            who(f, x.recipe), interval(x.estimate, loss_key(x)), x.word
        )
        for x in found
    ]
    if any(x.recipe.kind == "twin" and x.word == "loss" for x in found):
        out.append(Markup("What the text twin loses too is no effect of images."))
    return out


def how_much(f: Findings) -> list[Markup]:
    """What text adds, beyond less vision training, and the least share that is enough."""
    out = []
    mixed, none = f.roles.mixed, f.roles.none
    c = f.contrast("text", "text")
    if mixed is not None and none is not None and c is not None:
        s = Markup(
            "With {} of supervised tokens from text, {} scores on the mean of text "
            "constructs, against no text, {}."
        ).format(share_words(f, mixed), who(f, mixed), contrast_words("text", c))
        out.append(s)
        if mixed not in f.roles.same_format:
            out.append(
                Markup("Its output formats differ too, so text and format are not told apart here.")
            )
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
        if len(r.runs) < 2 and text_share(f, r) > 0 and r != mixed and f.loss(r, "text")
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


_REHEARSED = {"knowledge": "Facts", "format": "Instructions of kinds"}


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
                "{} that stood in the text rows changed by {}, those that stood in no arm by {}: "
                "{}."
            ).format(
                _REHEARSED.get(line.construct, f"Items of {line.construct}"),
                contrast_words("text", a),
                contrast_words("text", b),
                tail,
            )
        )
    return out
