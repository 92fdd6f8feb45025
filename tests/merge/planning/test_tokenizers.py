from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mixlab.merge.planning._tokenizers import compare_tokenizers
from mixlab.spec import MixlabError


def folder(path: Path, **files: Any) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / f"{name}.json").write_text(json.dumps(data))
    return path


def test_all_ways_to_write_one_vocabulary_agree(tmp_path: Path) -> None:
    added = [{"id": 2, "content": "<s>"}]
    unigram = {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]]}
    bpe = {"type": "BPE", "vocab": {"b": 1, "a": 0}}
    folders = [
        folder(tmp_path / "1", tokenizer={"model": unigram, "added_tokens": added}),
        folder(tmp_path / "2", tokenizer={"model": bpe, "added_tokens": added}),
        folder(tmp_path / "3", vocab={"a": 0, "b": 1}, added_tokens={"<s>": 2}),
    ]
    for one in folders:
        for other in folders:
            assert compare_tokenizers(one, other) == ([], [])


def test_an_added_token_that_moved_is_a_mistake(tmp_path: Path) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}}
    one, other = (
        folder(
            tmp_path / str(row),
            tokenizer={"model": model, "added_tokens": [{"id": row, "content": "<s>"}]},
        )
        for row in (2, 3)
    )
    (mistake,), warnings = compare_tokenizers(one, other)
    assert "1 tokens have other ids" in mistake
    assert "'<s>' is 2 and 3" in mistake
    assert warnings == []


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    one = folder(tmp_path / "1", vocab={"a": 0})
    mistakes, (warning,) = compare_tokenizers(one, folder(tmp_path / "2"))
    assert mistakes == []
    assert f"no tokenizer.json or vocab.json in {tmp_path}/2;" in warning


@pytest.mark.parametrize("data", [[], {"model": {"vocab": {"a": []}}}, {"model": {"vocab": [1]}}])
def test_damaged_files_are_named(tmp_path: Path, data: Any) -> None:
    one, other = folder(tmp_path / "1", vocab={"a": 0}), folder(tmp_path / "2", tokenizer=data)
    with pytest.raises(MixlabError, match=f"{other}/tokenizer.json: no tokenizer"):
        compare_tokenizers(one, other)


def test_a_file_that_refuses_reading_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (folder(tmp_path / name, vocab={"a": 0}) for name in "12")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(MixlabError, match=r"vocab\.json: cannot be read: Permission denied"):
        compare_tokenizers(one, other)
