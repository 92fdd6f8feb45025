"""Statistics on the study's tables: pure functions on tidy DataFrames. Imports no torch."""

from mixlab.attribute._churn import Churn, churn
from mixlab.attribute._definitions import DEFINITIONS
from mixlab.attribute._estimate import (
    DETECTABLE_FORMULA,
    UNDETERMINED,
    Estimate,
    equivalent,
    smallest_detectable,
    word,
)
from mixlab.attribute._family import holm
from mixlab.attribute._intervals import (
    cluster_interval,
    crossed_interval,
    fieller,
    t_interval,
)
from mixlab.attribute._loss import (
    Contrast,
    Loss,
    Recipe,
    above_floor,
    contrast,
    loss_on,
    recipes,
    score_of,
)
from mixlab.attribute._macro import TEXT_LINE, text_contrast, text_loss
from mixlab.attribute._merge_curve import (
    Joint,
    MergeCurve,
    Point,
    alphas_of,
    merge_curve,
    straight_chord,
)
from mixlab.attribute._paired import (
    Line,
    Paired,
    UnpairedError,
    add_unit,
    check,
    lines,
    pair_items,
    rows_of,
    text_lines,
)
from mixlab.attribute._pareto import pareto
from mixlab.attribute._protocols import own_best
from mixlab.attribute._response import (
    FormatEffect,
    Sufficient,
    fewest_recipes,
    format_effects,
    least_sufficient_text,
)

__all__ = [
    "DEFINITIONS",
    "DETECTABLE_FORMULA",
    "TEXT_LINE",
    "UNDETERMINED",
    "Churn",
    "Contrast",
    "Estimate",
    "FormatEffect",
    "Joint",
    "Line",
    "Loss",
    "MergeCurve",
    "Paired",
    "Point",
    "Recipe",
    "Sufficient",
    "UnpairedError",
    "above_floor",
    "add_unit",
    "alphas_of",
    "check",
    "churn",
    "cluster_interval",
    "contrast",
    "crossed_interval",
    "equivalent",
    "fewest_recipes",
    "fieller",
    "format_effects",
    "holm",
    "least_sufficient_text",
    "lines",
    "loss_on",
    "merge_curve",
    "own_best",
    "pair_items",
    "pareto",
    "recipes",
    "rows_of",
    "score_of",
    "smallest_detectable",
    "straight_chord",
    "t_interval",
    "text_contrast",
    "text_lines",
    "text_loss",
    "word",
]
