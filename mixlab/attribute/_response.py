"""Response of a skill to the share of text that was really trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mixlab.attribute._estimate import Estimate, equivalent, smallest_detectable
from mixlab.attribute._intervals import p_value, t_bounds
from mixlab.attribute._loss import Loss, Recipe
from mixlab.attribute._paired import Line, UnpairedError


@dataclass(frozen=True)
class Sufficient:
    """The least share of text that keeps every line within the margin, found from above.

    `recipe` is None when even the largest tested share fails, or when no recipe has two seeds.
    `failed` is the first recipe (from above) that could not be shown to keep all lines, with the
    labels of the lines at fault.
    """

    recipe: Recipe | None
    share: float
    tested: tuple[float, ...]
    failed: Recipe | None
    failed_share: float
    lines: tuple[str, ...]
    margin: float


def least_sufficient_text(
    losses: Sequence[Loss], shares: dict[str, float], margin: float = 3.0
) -> Sufficient:
    """Step down from the largest realised share of text while every line stays equivalent.

    `shares` maps recipe key to realised share of supervised tokens; the recipes given should differ
    in nothing else. A fixed sequence of tests, each at 5%, keeps the error over the whole family at
    5% (W. Maurer, L. A. Hothorn, W. Lehmacher, 1995; P. H. Westfall and A. Krishen, J. Stat. Plan.
    Inference 99 (2001) 25-40); within a recipe all lines must pass, which needs no correction
    (intersection-union). Recipes with one seed cannot carry the claim and are left out.
    """
    by: dict[str, list[Loss]] = {}
    for loss in losses:
        if loss.recipe.key in shares and len(loss.recipe.runs) >= 2:
            by.setdefault(loss.recipe.key, []).append(loss)
    order = sorted(by, key=lambda key: -shares[key])
    found: Recipe | None = None
    failed: Recipe | None = None
    guilty: tuple[str, ...] = ()
    for key in order:
        bad = tuple(x.line.label for x in by[key] if not equivalent(x.estimate, margin))
        if bad:
            failed, guilty = by[key][0].recipe, bad
            break
        found = by[key][0].recipe
    return Sufficient(
        found,
        shares[found.key] if found else math.nan,
        tuple(sorted(shares[key] for key in order)),
        failed,
        shares[failed.key] if failed else math.nan,
        guilty,
        margin,
    )


@dataclass(frozen=True)
class FormatEffect:
    """Change of a score, in points, when 10 points of share move from `base` to `format`."""

    format: str
    base: str
    line: Line
    estimate: Estimate


def fewest_recipes(n_formats: int) -> int:
    """Recipes needed before format effects are fitted: 6 more than there are coefficients."""
    return n_formats + 1 + 6


def format_effects(table: pd.DataFrame, line: Line, formats: Sequence[str]) -> list[FormatEffect]:
    """Effects of realised output-format shares, by least squares over recipes.

    `table` has one row a recipe (seeds averaged): `score` in points, `text` (realised share of
    supervised tokens, 0..1) and one column a format (realised shares, 0..1, at most 1 in all).
    The model is score = a + b text + sum c_k share_k without the first of `formats`, which is the
    base: c_k/10 is the change when 10 points of share move from the base to format k (the slack
    variable form of J. A. Cornell, Experiments with Mixtures, 2002, ch. 6). Intervals are t with
    HC3 variances (J. S. Long and L. H. Ervin, Am. Stat. 54 (2000) 217-224). Raises
    `UnpairedError` with the count needed when there are too few recipes, or when formats did not
    vary apart from each other.
    """
    import statsmodels.api as sm

    need = fewest_recipes(len(formats))
    if len(formats) < 2:
        raise UnpairedError("only one output format was trained on, so no format effect exists")
    if len(table) < need:
        raise UnpairedError(
            f"{len(table)} recipes for {len(formats)} formats are too few; at least {need} are "
            "needed: run more trials"
        )
    columns = ["text", *formats[1:]]
    design = sm.add_constant(table.loc[:, columns].to_numpy(dtype=float), has_constant="add")
    scale = np.linalg.norm(design, axis=0)
    if (scale == 0).any() or np.linalg.cond(design / np.where(scale > 0, scale, 1)) > 200:
        raise UnpairedError(
            "text share and format shares did not vary apart from each other, so their effects "
            "cannot be told apart; run trials over a simplex of formats"
        )
    fit = sm.OLS(table["score"].to_numpy(dtype=float), design).fit(cov_type="HC3", use_t=True)
    out = []
    df = float(fit.df_resid)
    for k, name in enumerate(formats[1:], start=2):
        value, se = float(fit.params[k]) / 10, float(fit.bse[k]) / 10
        low, high = t_bounds(value, se, df)
        estimate = Estimate(
            value,
            low,
            high,
            se,
            df,
            0,
            0,
            len(table),
            f"least squares over {len(table)} recipes, HC3",
            smallest_detectable(se, df),
            p_value(value, se, df),
        )
        out.append(FormatEffect(name, formats[0], line, estimate))
    return out
