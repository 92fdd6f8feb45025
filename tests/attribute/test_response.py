import math

import numpy as np
import pandas as pd
import pytest

from mixlab.attribute import (
    UnpairedError,
    fewest_recipes,
    format_effects,
    least_sufficient_text,
    loss_on,
)

from .tables import SKILL, recipe, rows, share

FORMATS = ["short", "letter", "json"]


def losses(levels, n=1000):
    frames = [rows("reference", share(n, 0.9))]
    out = []
    for name, points in levels.items():
        frames += [rows(f"{name}-{s}", share(n, 0.9 - p / 100)) for s, p in enumerate(points)]
    table = pd.concat(frames)
    for name, points in levels.items():
        out.append(loss_on(table, recipe(name, range(len(points))), SKILL))
    return out


def test_the_least_sufficient_share_is_found_from_above():
    found = least_sufficient_text(
        losses({"none": (20, 21, 22), "some": (0.5, 0.6, 0.4), "much": (0.1, 0.2, 0.0)}),
        {"none": 0.0, "some": 0.25, "much": 0.5},
    )
    assert found.share == 0.25
    assert found.failed.key == "none"
    assert found.tested == (0.0, 0.25, 0.5)


def test_a_failure_above_stops_the_steps():
    found = least_sufficient_text(
        losses({"some": (0.5, 0.6, 0.4), "much": (9, 10, 11)}), {"some": 0.25, "much": 0.5}
    )
    assert found.recipe is None
    assert math.isnan(found.share)
    assert found.failed.key == "much"
    assert found.lines == ("Procedure",)


def test_one_seed_carries_no_claim():
    found = least_sufficient_text(losses({"some": (0.5,)}), {"some": 0.25})
    assert found.recipe is None
    assert found.failed is None
    assert found.tested == ()


def mixes(n, rng, effect=(0.0, -2.0, 3.0), noise=0.5):
    shares = rng.dirichlet(np.ones(3), n)
    text = rng.uniform(0, 0.6, n)
    score = 50 + 20 * text + 10 * shares @ np.array(effect) + rng.normal(0, noise, n)
    table = pd.DataFrame(shares, columns=FORMATS)
    return table.assign(text=text, score=score)


def test_format_effects_find_what_was_planted():
    found = format_effects(mixes(40, np.random.default_rng(0)), SKILL, FORMATS)
    by = {e.format: e.estimate for e in found}
    assert set(by) == {"letter", "json"}
    assert by["letter"].low < -2.0 < by["letter"].high < 0
    assert 0 < by["json"].low < 3.0 < by["json"].high
    assert by["json"].df == 40 - 4


def test_format_effects_cover():
    rng = np.random.default_rng(1)
    hits = [
        e.estimate.low < -2 < e.estimate.high
        for _ in range(400)
        for e in format_effects(mixes(20, rng, noise=2.0), SKILL, FORMATS)
        if e.format == "letter"
    ]
    assert 0.92 < np.mean(hits) <= 0.99


def test_too_few_recipes_say_how_many_are_needed():
    assert fewest_recipes(3) == 10
    with pytest.raises(UnpairedError, match="9 recipes for 3 formats are too few; at least 10"):
        format_effects(mixes(9, np.random.default_rng(0)), SKILL, FORMATS)


def test_formats_that_never_varied_are_not_estimated():
    table = mixes(20, np.random.default_rng(0)).assign(short=1.0, letter=0.0, json=0.0)
    with pytest.raises(UnpairedError, match="did not vary apart"):
        format_effects(table, SKILL, FORMATS)
    with pytest.raises(UnpairedError, match="only one output format"):
        format_effects(table, SKILL, ["short"])
