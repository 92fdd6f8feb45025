"""Pieces of sentences, and the keys that numbers go by."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from mixlab.attribute import Contrast, Loss, Recipe
from mixlab.report._findings import Findings
from mixlab.report._numbers import data, interval, seeds
from mixlab.report._safe import arm


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


def who(f: Findings, recipe: Recipe) -> Markup:
    """A recipe and how many seeds it has."""
    return Markup("{} ({})").format(arm(recipe.label), seeds(len(recipe.runs)))
