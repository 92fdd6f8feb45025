import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mixlab.attribute import Line, text_contrast, text_loss

from .tables import SKILL, recipe, rows, share

FORM = Line("format", "format", ("",), "Format")


def table(levels):
    frames = []
    for construct, n in (("procedure", 100), ("format", 400)):
        frames.append(rows("reference", share(n, 1.0), construct=construct))
        for s, p in enumerate(levels[construct]):
            frames.append(rows(f"arm-{s}", share(n, p), construct=construct))
    return pd.concat(frames)


def test_lines_weigh_the_same_whatever_their_items():
    found = text_loss(
        table({"procedure": (0.5, 0.6), "format": (0.9, 0.8)}),
        recipe("arm", [0, 1]),
        [SKILL, FORM],
    )
    x = np.array([30.0, 30.0])
    assert found.estimate.estimate == pytest.approx(x.mean())
    assert found.score == pytest.approx(70)
    assert found.estimate.n_items == 500


def test_over_seeds_it_is_the_t_interval_of_macro_means():
    t = table({"procedure": (0.5, 0.6, 0.4), "format": (0.9, 0.8, 0.8)})
    found = text_loss(t, recipe("arm", [0, 1, 2]), [SKILL, FORM]).estimate
    x = np.array([30.0, 30.0, 40.0])
    assert (found.low, found.high) == pytest.approx(
        stats.t.interval(0.95, 2, loc=x.mean(), scale=stats.sem(x))
    )


def test_one_seed_adds_the_lines_variances():
    t = table({"procedure": (0.5,), "format": (0.75,)})
    found = text_loss(t, recipe("arm", [0]), [SKILL, FORM]).estimate
    own = 0.25 / 99 + 0.1875 / 399
    assert found.se == pytest.approx(100 * np.sqrt(own) / 2)
    assert found.n_seeds == 1


def test_text_contrast_has_the_sign_of_first_minus_second():
    t = table({"procedure": (0.5, 0.6), "format": (0.9, 0.8)})
    other = t[t["run"] != "reference"].assign(
        run=lambda d: d["run"].str.replace("arm", "low"), score=0.0
    )
    found = text_contrast(
        pd.concat([t, other]), recipe("arm", [0, 1]), recipe("low", [0, 1]), [SKILL, FORM]
    )
    assert found.estimate.estimate == pytest.approx(70)


def test_seeds_that_agree_fall_back_on_the_items():
    t = table({"procedure": (0.5, 0.5), "format": (0.9, 0.9)})
    found = text_loss(t, recipe("arm", [0, 1]), [SKILL, FORM]).estimate
    assert found.method.startswith("seeds agree exactly")
    assert found.n_seeds == 2
    assert found.low < 30 < found.high
    exact = table({"procedure": (1.0, 1.0), "format": (1.0, 1.0)})
    none = text_loss(exact, recipe("arm", [0, 1]), [SKILL, FORM]).estimate
    assert "exact bounds" in none.method
    assert none.high > 1
