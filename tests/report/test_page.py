"""The page as a whole: what it says is what was planted, and it stands alone."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import pytest

from mixlab import MixlabError
from mixlab.report import build_report
from mixlab.report._answer import answer as paragraphs
from mixlab.report._findings import find
from mixlab.report._headline import headline
from mixlab.report._read import read_study

from .naive import Naive
from .planted import Plant, write_study
from .reading import answer, numbers, parse, plain_text


def words(folder: Path) -> str:
    """Headline and answer without the charts."""
    f = find(read_study(folder))
    parts = [headline(f), *(p for _, said in paragraphs(f) for p in said)]
    return plain_text(" ".join(parts))


def test_the_words_say_what_was_planted(page: str) -> None:
    said = answer(page)
    assert "Training without text lost unrehearsed knowledge, procedure and format" in said
    assert re.search(r"25\.2% text keeps part of it|25\.2% text is shown to keep all", said)
    assert "a merge with the reference reaches J = 0.8" in said
    assert "better than the straight chord" in said
    assert "so what text keeps is not mere rehearsal" in said
    assert re.search(r"25\.2% text changed vision by −[234]", said)
    assert "alpha 1 is the VLM untouched" in said


def test_planted_sizes_are_within_their_intervals(page: str) -> None:
    found = {n.key: n.value for n in numbers(page)}
    for line, size in (("knowledge/tested", 30), ("procedure", 40), ("format", 50)):
        key = f"loss|recipe00|{line}"
        assert found[f"{key}|low"] - 1 < size < found[f"{key}|high"] + 1


def test_every_number_in_the_answer_is_found_again_in_the_tables(study: Path, page: str) -> None:
    naive = Naive(study)
    found = numbers(page)
    assert len(found) > 60
    open_ = 0
    for n in found:
        value = naive.number(n.key)
        if math.isnan(value):
            open_ += 1
            continue
        assert n.value == pytest.approx(value, abs=1e-6), n.key
        places = len(n.printed.strip("%").partition(".")[2])
        assert float(n.printed.replace("−", "-").strip("%")) == pytest.approx(
            value, abs=0.51 * 10**-places
        )
    assert open_ <= 8, "bounds over items are held against oracles elsewhere"


def test_no_number_in_the_answer_goes_without_a_key(page: str) -> None:
    start, end = page.index('<p class="headline">'), page.index("<h3>At a glance")
    bare = re.sub(r"<data.*?</data>|<bdi>.*?</bdi>|<[^>]+>", "", page[start:end], flags=re.S)
    left = re.findall(r"\d+\.\d+%?", bare)
    # Shares tested stand in a list that repeats keyed ones; alphas are the grid's own.
    assert set(left) <= {"0.0%", "25.2%", "0.25", "0.5", "0.75"}


def test_the_file_stands_alone(page: str) -> None:
    found = parse(page)
    assert not found.faults
    assert not found.open
    assert len(found.ids) == len(set(found.ids))
    assert "script" not in found.tags
    outside = [
        (tag, key, value)
        for tag, key, value in found.attributes
        if key in ("src", "href", "xlink:href", "action", "poster") and not value.startswith("#")
    ]
    assert outside == [("link", "href", "data:,")]
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert len(page.encode()) < 1_500_000


def test_every_figure_is_named_described_and_has_its_table(page: str) -> None:
    found = parse(page)
    figures = [v for t, k, v in found.attributes if t == "figure" and k == "aria-labelledby"]
    assert figures == ["loss-name", "response-name", "formats-name", "plane-name", "merge-name"]
    for tag, key, value in found.attributes:
        if key in ("aria-labelledby", "aria-describedby"):
            assert value in found.ids, (tag, value)
    assert page.count('<figure role="img"') == len(figures)
    assert page.count("Numbers behind this figure") == len(figures)


def test_colour_is_never_fixed_inside_a_chart(page: str) -> None:
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.S))
    fixed = set(re.findall(r'(?:fill|stroke)="(#[0-9a-fA-F]+|[a-z]+)"', drawn))
    assert fixed <= {"none", "transparent"}
    assert "var(--blue)" in drawn


def test_the_same_tables_give_the_same_page(study: Path, page: str, tmp_path: Path) -> None:
    start = time.process_time()
    again = build_report(study, tmp_path / "again.html").read_text(encoding="utf-8")
    assert again == page
    assert time.process_time() - start < 20


def test_sections_stand_in_the_order_of_the_question(page: str) -> None:
    order = re.findall(r'<section id="([^"]+)"', page)
    assert order == [
        "answer",
        "s-loss",
        "s-response",
        "s-formats",
        "s-plane",
        "s-merge",
        "s-receipts",
        "s-trials",
        "limits",
        "provenance",
    ]
    assert "mixlab sweep sweeps/text_ratio.yaml" in page
    assert "weights000" in page


def test_a_world_without_loss_says_so_and_has_no_recovery(tmp_path: Path) -> None:
    plant = Plant(loss={}, seed_spread=0.001, scale=0.7, trials=0)
    said = words(write_study(tmp_path, plant))
    assert "lost none of the text skills" in said or "is undetermined here" in said
    assert "R and J are undefined" in said
    assert " J = " not in said


def test_a_small_noisy_study_is_undetermined_with_what_it_could_have_seen(tmp_path: Path) -> None:
    loss = {"knowledge": 0.05, "procedure": 0.05, "format": 0.05}
    plant = Plant(loss=loss, seed_spread=0.06, scale=0.2, trials=0)
    said = words(write_study(tmp_path, plant))
    assert "undetermined" in said
    assert "smallest detectable effect" in said
    assert "What stays open" not in said or "neither shown nor ruled out" in said


def test_one_seed_speaks_of_checkpoints_never_of_recipes(tmp_path: Path) -> None:
    plant = Plant(seeds=(0,), scale=0.3, trials=2)
    folder = write_study(tmp_path, plant)
    said = words(folder)
    assert "One seed compares two checkpoints, never two recipes" in said
    assert "No share of text was tested with two seeds or more" in said
    assert "bootstrap" in find(read_study(folder)).curves[0].joint.joint.method
    assert "too few" in said


def test_a_worse_merge_than_the_chord_is_called_worse(tmp_path: Path) -> None:
    plant = Plant(recovery_power=0.4, scale=0.5, trials=0)
    said = words(write_study(tmp_path, plant))
    assert "worse than the straight chord" in said


def test_without_merges_dilution_or_trials_it_still_answers(tmp_path: Path) -> None:
    folder = write_study(tmp_path, Plant(scale=0.3, trials=0, merges=False))
    for part in (folder / "tables" / "receipts").iterdir():
        part.unlink()
    page = build_report(folder).read_text(encoding="utf-8")
    assert "No merge with the reference was scored" in answer(page)
    assert not parse(page).faults


def test_merges_without_a_vision_task_are_not_called_absent(tmp_path: Path) -> None:
    import pandas as pd

    folder = write_study(tmp_path, Plant(scale=0.2, trials=0))
    for part in (folder / "tables" / "scores").iterdir():
        rows = pd.read_parquet(part)
        rows[rows["construct"] != "vision"].to_parquet(part)
    said = words(folder)
    assert "V and J need a vision task" in said
    assert "No merge" not in said


def test_runs_scored_on_other_items_are_an_error_that_names_them(tmp_path: Path) -> None:
    import pandas as pd

    folder = write_study(tmp_path, Plant(scale=0.2, trials=0, merges=False))
    part = folder / "tables" / "scores" / "run00s1.parquet"
    pd.read_parquet(part).query("item != 'procedure-all-test-0007'").to_parquet(part)
    with pytest.raises(MixlabError, match=r"run00s1: procedure-all-test-0007 \(1 in all\)"):
        build_report(folder)


def test_what_is_no_study_is_named(tmp_path: Path) -> None:
    with pytest.raises(MixlabError, match=r"no study\.json"):
        build_report(tmp_path)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(MixlabError, match="no scores yet"):
        build_report(tmp_path)
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(MixlabError, match="is no JSON"):
        build_report(tmp_path)


def test_a_sweep_under_way_says_so(tmp_path: Path) -> None:
    import pandas as pd

    folder = write_study(tmp_path, Plant(scale=0.1, trials=2, merges=False))
    for part in (folder / "tables" / "scores").glob("run*.parquet"):
        pd.read_parquet(part).query("split == 'dev'").to_parquet(part)
    page = build_report(folder).read_text(encoding="utf-8")
    assert "No arm has been scored on test yet" in answer(page)
    assert "8 recipes have no test scores" in page


def test_a_failed_build_leaves_the_old_page(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    with pytest.raises(MixlabError):
        build_report(tmp_path, out)
    assert out.read_text() == "old"
