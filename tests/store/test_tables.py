from pathlib import Path

import pandas as pd
import pytest

from mixlab import MixlabError
from mixlab.store import Tables


def frame(run: str, score: float) -> pd.DataFrame:
    return pd.DataFrame({"run": [run, run], "score": [score, 1.0], "image": [b"\x89PNG", None]})


def test_append_is_idempotent_by_key(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    assert tables.read("scores").empty
    assert tables.append("scores", frame("b", 0.5), "b/seed 1")
    assert tables.append("scores", frame("a", 0.25), "a")
    assert not tables.append("scores", frame("b", 0.75), "b/seed 1")
    read = tables.read("scores")
    assert list(read["run"]) == ["a", "a", "b", "b"]
    assert list(read["score"]) == [0.25, 1.0, 0.5, 1.0]
    assert read["image"][0] == b"\x89PNG"
    assert tables.keys("scores") == ["a", "b/seed 1"]
    assert tables.names() == ["scores"]


def test_columns_that_are_empty_in_one_part_keep_the_others_type(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.append("t", pd.DataFrame({"a": [None], "b": [1]}), "1")
    tables.append("t", pd.DataFrame({"a": ["x"], "c": [2.5]}), "2")
    read = tables.read("t")
    assert pd.isna(read["a"][0])
    assert read["a"][1] == "x"
    assert read["c"][1] == 2.5


def test_long_keys_stay_apart(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    for end in "ab":
        assert tables.append("t", frame(end, 0.0), "k" * 400 + end)
    assert len(tables.read("t")) == 4


def test_truncated_part_is_named_with_the_mend(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.append("scores", frame("a", 0.5), "a")
    part = tmp_path / "scores" / "a.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(MixlabError, match=r"a\.parquet is truncated or damaged.*Delete this"):
        tables.read("scores")


def test_mixed_types_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(MixlabError, match="values of several types"):
        Tables(tmp_path).append("t", pd.DataFrame({"a": ["x", 1.5]}, dtype=object), "1")
    assert Tables(tmp_path).names() == []
