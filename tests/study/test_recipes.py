import pytest

from mixlab.spec import SpecError
from mixlab.study.recipes import blend, label_of, one_table, show
from tests.study.conftest import SWEEP, Sweeps


def test_words_for_mixes() -> None:
    assert label_of({"mix": {"text_fraction": 0.0, "formats": {"short": 1.0}}}) == "no text, short"
    both = {"vision": {"short": 0.5, "json": 0.5}, "text": {"short": 0.5, "json": 0.5}}
    assert label_of({"mix": {"text_fraction": 0.25, "formats": both}}) == (
        "text 25%, short 0.5+json 0.5"
    )
    assert show(0.123456) == "0.123"


def test_tables_by_modality() -> None:
    same = {"vision": {"short": 1.0}, "text": {"short": 1.0}}
    apart = {"vision": {"short": 1.0}, "text": {"json": 1.0}}
    assert one_table(same) == {"short": 1.0}
    assert one_table(apart) == apart
    assert blend(apart, 0.25) == {"short": 0.75, "json": 0.25}
    assert blend(same, 0.25) == {"short": 1.0}


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        # `true` dilutes those baselines that have every seed: 25% with seeds 0 and 1.
        ("dilution: [0.25]", "dilution: true", 8),
        ("dilution: [0.25]", "dilution: false", 6),
        ("dilution: [0.25]", "dilution: [0.25, 0.5]", 10),
        ("twins: {text: true, seeds: [0]}", "twins: {text: true}", 9),
        ("twins: {text: true, seeds: [0]}", "twins: {text: true, of: [0.0, 0.5]}", 9),
        ("twins: {text: true, seeds: [0]}", "twins: {text: false}", 7),
        ("trials: 5", "trials: 1\ntrial_seeds: [0, 1, 2]", 11),
    ],
)
def test_which_runs_a_file_asks_for(sweeps: Sweeps, old: str, new: str, runs: int) -> None:
    text = SWEEP.replace(old, new)
    trials = {} if "trial_seeds" in new else {"trials": 0}
    sweeps.run(text=text, **trials)
    done = list((sweeps.folder / "study").glob("runs/*/done.json"))
    assert len(done) == runs


def test_a_twin_of_a_fraction_that_no_baseline_has_is_an_error(sweeps: Sweeps) -> None:
    text = SWEEP.replace("twins: {text: true, seeds: [0]}", "twins: {text: true, of: [0.3]}")
    with pytest.raises(SpecError, match=r"twins.of is \[0.3\].*\[0.0, 0.25, 0.5\]"):
        sweeps.run(text=text)
