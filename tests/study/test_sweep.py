import json
import math
import os
from pathlib import Path

import pytest

from mixlab import MixlabError
from mixlab.spec import SpecError
from mixlab.store import Tables, lock_folder
from tests.study.conftest import SWEEP, Sweeps


def test_all_arms_are_trained_and_the_second_start_has_nothing_to_do(sweeps: Sweeps) -> None:
    result = sweeps.run()
    # 5 baseline runs, 2 of dilution, 1 twin, 5 trials.
    runs = Tables(result.folder / "tables").read("runs")
    assert runs.groupby("kind").size().to_dict() == {
        "baseline": 5,
        "dilution": 2,
        "trial": 5,
        "twin": 1,
    }
    trials = Tables(result.folder / "tables").read("trials")
    assert list(trials["number"]) == list(range(8))
    assert list(trials["source"]) == ["enqueued"] * 3 + ["sampler"] * 5
    assert set(trials["state"]) == {"complete"}
    assert "time left" not in sweeps.text
    before = sweeps.result()
    again = sweeps.run()
    assert again.jobs == 0
    assert "nothing to train" in sweeps.text
    assert sweeps.result() == before


def test_baseline_trials_hold_the_mean_over_their_seeds(sweeps: Sweeps) -> None:
    folder = sweeps.run().folder
    trials = Tables(folder / "tables").read("trials")
    infos = [json.loads(path.read_text()) for path in folder.glob("runs/*/done.json")]
    texts = [info["objectives"]["text"] for info in infos if info["trial"] == 1]
    assert len(texts) == 2
    assert trials["text"][1] == pytest.approx(sum(texts) / 2, abs=1e-12)


def test_results_do_not_depend_on_the_number_of_workers(sweeps: Sweeps) -> None:
    sweeps.run("one", workers=1)
    sweeps.run("three", workers=3)
    assert sweeps.result("one") == sweeps.result("three")


def test_more_trials_extend_a_study_as_if_asked_for_at_once(sweeps: Sweeps) -> None:
    sweeps.run("grown", trials=2)
    sweeps.run("grown", trials=5)
    sweeps.run("whole", trials=5)
    grown, whole = sweeps.result("grown"), sweeps.result("whole")
    assert grown["trials"] == whole["trials"]
    assert grown["runs"] == whole["runs"]


def _confirmed_trials(folder: Path) -> set[int]:
    infos = [json.loads(path.read_text()) for path in folder.glob("runs/*/confirm/done.json")]
    return {info["trial"] for info in infos if info["kind"] == "trial"}


def test_all_trials_are_confirmed_on_request(sweeps: Sweeps) -> None:
    folder = sweeps.run(overrides=["confirm.trials=all"]).folder
    assert _confirmed_trials(folder) == set(range(3, 8))


def test_a_front_is_confirmed_and_the_rest_is_not(sweeps: Sweeps) -> None:
    folder = sweeps.run().folder
    trials = Tables(folder / "tables").read("trials").set_index("number")
    confirmed = _confirmed_trials(folder)

    def beaten(number: int) -> bool:
        mine = trials.loc[number]
        return any(
            other.text >= mine.text
            and other.vision >= mine.vision
            and (other.text > mine.text or other.vision > mine.vision)
            for other in trials.itertuples()
        )

    assert confirmed == {number for number in range(3, 8) if not beaten(number)}


def test_nan_fails_the_trial_once_and_the_sweep_goes_on(sweeps: Sweeps) -> None:
    folder = sweeps.run(arguments={"trouble": "nan"}).folder
    trials = Tables(folder / "tables").read("trials")
    assert list(trials["state"][3:]) == ["fail", "complete", "fail", "complete", "fail"]
    assert math.isnan(trials["text"][3])
    assert sweeps.run(arguments={"trouble": "nan"}).jobs == 0


def test_a_mistake_in_a_run_stops_clearly_and_the_mended_sweep_goes_on(sweeps: Sweeps) -> None:
    with pytest.raises(MixlabError, match=r"train text 25%.*images/7\.png is truncated"):
        sweeps.run(arguments={"trouble": "raise"})
    done = sweeps.result()
    assert any(name.endswith("done.json") for name in done)
    sweeps.run()
    sweeps.run("whole")
    assert sweeps.result() == sweeps.result("whole")


def test_an_unexpected_error_leaves_its_traceback_in_the_logs(sweeps: Sweeps) -> None:
    with pytest.raises(MixlabError, match=r"RuntimeError: boom; the traceback is in"):
        sweeps.run(arguments={"trouble": "crash"}, workers=1)
    assert "in execute" in (sweeps.folder / "study" / "logs" / "worker-0.log").read_text()


def test_a_dead_workers_job_is_done_again_once(sweeps: Sweeps) -> None:
    sweeps.run(arguments={"trouble": "die"})
    assert "died (SIGKILL)" in sweeps.text
    sweeps.run("whole")
    assert sweeps.result() == sweeps.result("whole")


def test_a_deleted_part_is_made_anew(sweeps: Sweeps) -> None:
    folder = sweeps.run().folder
    before = sweeps.result()
    part = next((folder / "tables" / "scores").glob("*-fit.parquet"))
    part.unlink()
    assert sweeps.run().jobs == 1
    assert sweeps.result() == before


def test_changed_settings_are_refused_with_the_difference(sweeps: Sweeps) -> None:
    sweeps.run(trials=0)
    with pytest.raises(MixlabError, match=r"other settings:\n  arm\.steps: 3 -> 4\n.*--new"):
        sweeps.run(text=SWEEP.replace("steps: 3", "steps: 4"), trials=0)
    with pytest.raises(MixlabError, match=r"parameters\.mix\.text_fraction\.max: 0\.6 -> 0\.5"):
        sweeps.run(text=SWEEP.replace("max: 0.6", "max: 0.5"), trials=0)
    result = sweeps.run(text=SWEEP.replace("steps: 3", "steps: 4"), trials=0, new=True)
    assert result.folder == sweeps.folder / "study-2"


def test_folders_of_others_are_refused(sweeps: Sweeps, tmp_path: Path) -> None:
    sweeps.run(trials=0)
    with pytest.raises(MixlabError, match="another study, 'cheap'; this sweep is 'other'"):
        sweeps.run(text=SWEEP.replace("name: cheap", "name: other"))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").touch()
    with pytest.raises(MixlabError, match=r"holds other files \(cat\.png\)"):
        sweeps.run("photos")
    assert not (tmp_path / "photos" / "study.json").exists()


def test_a_folder_in_use_is_refused(sweeps: Sweeps) -> None:
    with (
        lock_folder(sweeps.folder / "study"),
        pytest.raises(MixlabError, match=f"in use by process {os.getpid()} "),
    ):
        sweeps.run()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("trials: 5", "trails: 5", r"cheap\.yaml:\d+: unknown key 'trails'; .*'trials'"),
        (
            "  mix.text_fraction: {dist",
            "  mix.text_fractoin: {dist",
            r":6: unknown setting 'mix\.text_fractoin'.*did you mean 'mix\.text_fraction'",
        ),
        ("steps: 3", "stepz: 3", r"cheap\.yaml:4: unknown key 'stepz'; did you mean 'steps'"),
        (
            "mix.text_fraction: 0.5, ",
            "mix.text_fraction: 1.5, ",
            r"cheap\.yaml:11: mix\.text_fraction: found 1\.5, expected a fraction",
        ),
        ("mix.text_fraction: 0.5, ", "mix.text_fraction: 0.7, ", r":11: .*outside the search"),
        (
            "0.25, mix.formats: {short: 1.0}",
            "0.25, mix.formats: {short: 0.5}",
            r"cheap\.yaml:10: mix\.formats: shares sum to 0\.5",
        ),
        ("0.25, mix", "0.0, mix", r"cheap\.yaml:10: this baseline is the same recipe as number 1"),
        ("seeds: [0, 1]", "seeds: [0, 0]", "a seed stands twice"),
        ("dilution: [0.25]", "dilution: [25]", r"found 25, expected a fraction"),
        ("{short: 1.0}, seeds: [0]", "{short: 1.0}, seeds: 0", r"seeds: found 0, expected a list"),
    ],
)
def test_mistakes_in_the_file(sweeps: Sweeps, old: str, new: str, message: str) -> None:
    assert old in SWEEP
    with pytest.raises(SpecError, match=message):
        sweeps.run(text=SWEEP.replace(old, new, 1))
    assert not (sweeps.folder / "study" / "study.json").exists()
