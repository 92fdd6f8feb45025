from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from tiny_checkpoints import write_model

from mixlab.merge import merge_checkpoints, preview_merge
from mixlab.merge.running._output import check_out
from mixlab.spec import MixlabError


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return write_model(tmp_path / "a", seed=1), write_model(tmp_path / "b", seed=2, shards=2)


def test_a_place_that_cannot_be_renamed_to_is_told_before_the_work(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for ask in (preview_merge, merge_checkpoints):
        with pytest.raises(MixlabError, match=r"is the working directory.*such as merged"):
            ask({"method": "linear", "models": list(pair)}, ".")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "is_mount", lambda self: self == here)
    with pytest.raises(MixlabError, match="where a disk is mounted"):
        check_out(here, [])
    check_out(here / "merged", [])


def test_a_parent_that_is_a_file_or_refuses_writing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MixlabError, match="file is a file; expected a folder"):
        check_out(tmp_path / "file" / "deep" / "out", [])
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(MixlabError, match=f"no permission to write in {tmp_path}"):
        check_out(tmp_path / "deep" / "out", [])


def test_a_preview_sees_a_disk_that_is_too_small(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mixlab.store.space.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})
    )
    with pytest.raises(MixlabError, match="not enough room"):
        preview_merge({"method": "linear", "models": list(pair)}, tmp_path / "out")
    with pytest.raises(MixlabError, match="is no size"):
        preview_merge({"method": "linear", "models": list(pair)}, max_shard_size="big")


def test_an_input_given_as_output_is_never_said_to_be_in_the_way(pair: tuple[Path, Path]) -> None:
    for ask in (preview_merge, merge_checkpoints):
        with pytest.raises(MixlabError, match="is an input of this merge"):
            ask({"method": "linear", "models": list(pair)}, pair[0])


def test_what_json_or_utf8_cannot_say_is_carried_over(tmp_path: Path) -> None:
    config = {"time_step_limit": [0.0, math.inf], "token": "\ud800"}
    models = [
        write_model(tmp_path / os.fsdecode(name), seed=seed, config=config)
        for seed, name in enumerate((b"m\xff", b"n"))
    ]
    out = tmp_path / os.fsdecode(b"out\xfe")
    merge_checkpoints({"method": "linear", "models": models}, out)
    written = json.loads((out / "config.json").read_text())
    assert {key: written[key] for key in config} == config
    assert (out / "README.md").exists()


def test_an_interrupted_verification_leaves_the_merge_and_says_so(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixlab.merge._checkpoints.verify", stop)
    with pytest.raises(KeyboardInterrupt, match="out is finished and stays"):
        merge_checkpoints({"method": "linear", "models": list(pair)}, tmp_path / "out", check=2)
    assert (tmp_path / "out" / "config.json").exists()


def test_the_place_of_a_snapshot_s_files_in_the_hub_s_cache_is_an_input_too(tmp_path: Path) -> None:
    cache = tmp_path / "hub" / "models--org--name"
    snapshot = cache / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for out in (cache, cache / "blobs" / "out", snapshot / "out", cache / "snapshots" / "new"):
        with pytest.raises(MixlabError, match="inputs are never written to"):
            check_out(out, [snapshot])
    check_out(tmp_path / "hub" / "out", [tmp_path / "hub" / "other"])
    plain = tmp_path / "snapshots" / "abc"
    plain.mkdir(parents=True)
    check_out(tmp_path / "snapshots" / "out", [plain])
