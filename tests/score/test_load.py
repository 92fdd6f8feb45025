"""Tasks from files: what is read, and what is refused with file and row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_tasks import text_rows, vision_rows, write_task

from mixlab.score import foreign_task, items_table, load_task
from mixlab.spec import MixlabError


def _row(**changes: object) -> dict:
    row = {"id": "1", "question": "which?", "answer": "blue", "split": "test"}
    return {key: value for key, value in {**row, **changes}.items() if value is not None}


def _error(tmp_path: Path, rows: list[dict], **settings: object) -> str:
    with pytest.raises(MixlabError) as caught:
        load_task(write_task(tmp_path, "t", rows, **settings))
    return str(caught.value)


def test_a_missing_field_names_file_row_and_field(tmp_path: Path) -> None:
    message = _error(tmp_path, [_row(), _row(id="2", answer=None)])
    assert "t.jsonl:2" in message
    assert "'answer'" in message


def test_no_items(tmp_path: Path) -> None:
    assert "no items" in _error(tmp_path, [])


def test_duplicate_ids_name_both_rows(tmp_path: Path) -> None:
    message = _error(tmp_path, [_row(), _row()])
    assert "t.jsonl:2" in message
    assert "t.jsonl:1" in message


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"answer": " "}, "no extractor"),
        ({"answer": "?!"}, "no extractor"),
        ({"answer": "purple", "choices": ["a", "b"], "format": "letter"}, "no letter"),
        ({"split": "train"}, "dev, test"),
        ({"format": "yaml"}, "short"),
        ({"constraints": [{"kind": "rhymes"}]}, "rhymes"),
        ({"image": "none.png"}, "none.png"),
        ({"question": "  "}, "question"),
    ],
)
def test_bad_rows(tmp_path: Path, changes: dict, word: str) -> None:
    message = _error(tmp_path, [_row(**changes)])
    assert "t.jsonl:1" in message
    assert word in message


def test_constrained_without_constraints_would_pass_anything(tmp_path: Path) -> None:
    message = _error(tmp_path, [_row(format="constrained")], metric="form")
    assert "constraints" in message


def test_choice_gold_must_be_a_choice(tmp_path: Path) -> None:
    assert "none of the choices" in _error(tmp_path, [_row(choices=["x", "y"])], metric="choice")


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    path = write_task(tmp_path, "t", [_row()])
    (tmp_path / "t.jsonl").write_text(json.dumps(_row()) + "\n{oops\n")
    with pytest.raises(MixlabError, match=r"t\.jsonl:2"):
        load_task(path)


def test_unknown_key_in_the_yaml(tmp_path: Path) -> None:
    message = _error(tmp_path, [_row()], max_new_token=3)
    assert "max_new_token" in message
    assert "max_new_tokens" in message


def test_fields_map_foreign_names(tmp_path: Path) -> None:
    rows = [{"key": 7, "prompt": "which?", "target": "blue"}]
    fields = {"id": "key", "question": "prompt", "answer": "target"}
    item = load_task(write_task(tmp_path, "t", rows, fields=fields)).items[0]
    assert (item.id, item.question, item.answer, item.split) == ("7", "which?", "blue", "test")


def test_parquet_rows(tmp_path: Path) -> None:
    import pandas as pd

    path = write_task(tmp_path, "t", [], items="t.parquet")
    pd.DataFrame(text_rows(4)).to_parquet(tmp_path / "t.parquet")
    assert len(load_task(path).items) == 4


def _write(path: Path, row: dict) -> Path:
    path.write_text(json.dumps(row) + "\n")
    return path


def test_ifeval_rows(tmp_path: Path) -> None:
    row = {
        "key": 1000,
        "prompt": "Say hello. No commas.",
        "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
        "kwargs": [{"num_words": None}, {"relation": "at least", "num_words": 3}],
    }
    task = foreign_task("ifeval", _write(tmp_path / "rows.jsonl", row))
    assert (task.construct, task.metric) == ("format", "form")
    assert task.items[0].ifeval == (
        ("punctuation:no_comma", {}),
        ("length_constraints:number_words", {"relation": "at least", "num_words": 3}),
    )


def test_gsm8k_rows(tmp_path: Path) -> None:
    good = {"question": "How many?", "answer": "20 - 2 = 18\n#### 1,018"}
    task = foreign_task("gsm8k", _write(tmp_path / "rows.jsonl", good))
    assert task.items[0].answer == "1018"
    bad = _write(tmp_path / "bad.jsonl", {"question": "How many?", "answer": "18"})
    with pytest.raises(MixlabError, match=r"bad\.jsonl:1.*####"):
        foreign_task("gsm8k", bad)


def test_hellaswag_rows(tmp_path: Path) -> None:
    row = {"id": 5, "context": "He sits. He", "endings": ["runs.", "stands up."], "label": 1}
    task = foreign_task("hellaswag", _write(tmp_path / "rows.jsonl", row))
    assert (task.metric, task.template) == ("choice", "plain")
    assert task.items[0].answer == "stands up."
    bad = _write(tmp_path / "bad.jsonl", {**row, "label": 2})
    with pytest.raises(MixlabError, match="label 2"):
        foreign_task("hellaswag", bad)


def test_a_hub_id_without_network_names_the_local_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(MixlabError, match="JSONL or Parquet"):
        foreign_task("gsm8k", "openai/gsm8k")


def test_a_missing_file_is_not_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("asked the hub")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(MixlabError, match="no such items file"):
        foreign_task("gsm8k", "nowhere/rows.jsonl")


def test_items_table_holds_png_bytes(tmp_path: Path) -> None:
    text = load_task(write_task(tmp_path, "text", text_rows(3)))
    vision = load_task(write_task(tmp_path, "v", vision_rows(tmp_path, 4), construct="vision"))
    table = items_table([text, vision])
    assert len(table) == 7
    assert table.image.notna().sum() == 4
    assert all(data[:4] == b"\x89PNG" for data in table.image.dropna())


def test_items_table_names_a_truncated_image(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path, "v", vision_rows(tmp_path, 4), construct="vision"))
    image = tmp_path / "images/1.png"
    image.write_bytes(image.read_bytes()[:60])
    with pytest.raises(MixlabError, match=r"v2.*1\.png"):
        items_table([task])
