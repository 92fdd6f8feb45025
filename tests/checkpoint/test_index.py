import json
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from mixlab.checkpoint import Checkpoint, check_inside, read_state, weight_files
from mixlab.spec import MixlabError

INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    """Two shards and their index."""
    save_file({"a": torch.ones(2), "b": torch.zeros(3)}, tmp_path / "one.safetensors")
    save_file({"c": torch.ones(1).half()}, tmp_path / "two.safetensors")
    write_index(tmp_path, {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})
    return tmp_path


def write_index(folder: Path, weights: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weights}))


def test_a_shard_may_hold_several_tensors(folder):
    assert [path.name for path in weight_files(folder)] == ["one.safetensors", "two.safetensors"]
    assert read_state(folder)["b"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../model.safetensors", "tensor a: '../model.safetensors' is not a bare file name"),
        ("sub/model.safetensors", "not a bare file name"),
        ("/etc/model.safetensors", "not a bare file name"),
        ("..", "not a bare file name"),
        ("", "not a bare file name"),
        ("a\0.safetensors", "not a bare file name"),
        ("a\x1b[0m.safetensors", "not a bare file name"),
        ("a\\b.safetensors", "not a bare file name"),
        (3, "not a bare file name"),
        (["one.safetensors"], "not a bare file name"),
        ("other.safetensors", "names other.safetensors, which is missing; copy or download"),
        ("weights.bin", "no safetensors file"),
        ("x" * 300 + ".safetensors", "which is missing"),
    ],
)
def test_an_index_entry_names_a_file_of_the_folder(folder, name, message):
    write_index(folder, {"a": name, "c": "two.safetensors"})
    with pytest.raises(MixlabError, match=message):
        weight_files(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "expected a JSON object"),
        (b"{}", "no weight_map"),
        (b'{"weight_map": []}', "no weight_map"),
        (b'{"weight_map": {}}', "no weight_map"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"weight_map": {"a": "one.safetensors", "a": "two.safetensors"}}', "'a' stands in it"),
        (b'{"weight_map": {}, "weight_map": {"a": "two.safetensors"}}', "'weight_map' stands in"),
        (b'{"weight_map": {"\\u001b": "one.safetensors"}}', "no tensor name"),
    ],
)
def test_a_damaged_index_is_named(folder, text, message):
    (folder / INDEX).write_bytes(text)
    with pytest.raises(MixlabError, match=rf"{INDEX}.*{message}"):
        weight_files(folder)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_no_damage_to_an_index_gives_another_exception(tmp_path_factory, data):
    text = bytearray(json.dumps({"weight_map": {"a": "one.safetensors"}}).encode())
    at = data.draw(st.integers(0, len(text)))
    text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    folder = tmp_path_factory.mktemp("index")
    save_file({"a": torch.ones(2)}, folder / "one.safetensors")
    (folder / INDEX).write_bytes(text)
    try:
        with Checkpoint(folder) as checkpoint:
            assert set(checkpoint.entries) == {"a"}
    except MixlabError as error:
        assert INDEX in str(error) or "weights" in str(error)  # noqa: PT017


def test_an_enormous_index_is_refused(folder, monkeypatch):
    monkeypatch.setattr("mixlab.checkpoint._index._JSON_LIMIT", 20)
    with pytest.raises(MixlabError, match="longer than 20 bytes"):
        weight_files(folder)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            {"a": "one.safetensors", "c": "two.safetensors"},
            r"one\.safetensors holds b, which .*index\.json does not name; .*another model",
        ),
        (
            {"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"},
            r"one\.safetensors holds b, which .* places in two\.safetensors",
        ),
        (
            {
                "a": "one.safetensors",
                "b": "one.safetensors",
                "c": "two.safetensors",
                "d": "two.safetensors",
            },
            r"index\.json names d, but two\.safetensors does not hold it",
        ),
    ],
)
def test_index_and_headers_agree_both_ways(folder, weights, message):
    write_index(folder, weights)
    with pytest.raises(MixlabError, match=message):
        Checkpoint.open(folder)


def test_a_name_in_two_shards_is_refused(folder):
    save_file({"a": torch.ones(2), "c": torch.ones(1)}, folder / "two.safetensors")
    with pytest.raises(MixlabError, match=r"two\.safetensors: a also stands in .*one\.safetensors"):
        read_state(folder)


def test_a_single_file_beside_an_index_of_others_is_refused(folder):
    save_file({"a": torch.ones(2)}, folder / "model.safetensors")
    with pytest.raises(MixlabError, match="two sets of weights"):
        weight_files(folder)
    (folder / INDEX).unlink()
    assert [path.name for path in weight_files(folder)] == ["model.safetensors"]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt"])
def test_pickled_folders_are_refused_with_the_way_to_convert(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(MixlabError, match=rf"{name}.*save_pretrained"):
        weight_files(tmp_path)


def test_folders_without_weights_say_what_they_are(tmp_path):
    with pytest.raises(MixlabError, match=r"no model\.safetensors"):
        weight_files(tmp_path)
    with pytest.raises(MixlabError, match="no such model folder"):
        weight_files(tmp_path / "none")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(MixlabError, match="an adapter"):
        weight_files(tmp_path)


def test_a_link_that_leaves_the_folder_is_refused(folder):
    outside = folder.parent / "outside.safetensors"
    (folder / "two.safetensors").rename(outside)
    (folder / "two.safetensors").symlink_to(outside)
    with pytest.raises(MixlabError, match=r"two\.safetensors is a link that leaves its folder"):
        weight_files(folder)
    (folder / "two.safetensors").unlink()
    (folder / "two.safetensors").symlink_to("two.safetensors")
    with pytest.raises(MixlabError, match=r"two\.safetensors: cannot be read"):
        weight_files(folder)
    (folder / "two.safetensors").unlink()
    outside.rename(folder / "real.safetensors")
    (folder / "two.safetensors").symlink_to("real.safetensors")
    assert read_state(folder)["c"].tolist() == [1]


def hub_cache(root: Path, files: dict[str, bytes]) -> Path:
    """A snapshot as the hub's client lays it out."""
    cache = root / "models--org--name"
    snapshot = cache / "snapshots" / "abc"
    for name, content in files.items():
        path = snapshot / name
        blob = cache / "blobs" / f"hash-of-{path.name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        blob.parent.mkdir(exist_ok=True)
        blob.write_bytes(content)
        path.symlink_to(os.path.relpath(blob, path.parent))
    return snapshot


def test_a_snapshot_of_the_hub_is_read_and_no_more_than_that(folder, tmp_path_factory):
    names = [INDEX, "one.safetensors", "two.safetensors"]
    root = tmp_path_factory.mktemp("hub")
    snapshot = hub_cache(root, {name: (folder / name).read_bytes() for name in names})
    assert set(read_state(snapshot)) == {"a", "b", "c"}
    (root / "by-name").symlink_to(snapshot)  # the user's own link to a folder is the user's choice
    assert set(read_state(root / "by-name")) == {"a", "b", "c"}
    other = hub_cache(root / "other", {"two.safetensors": b""})
    for target in (folder / "two.safetensors", other / "two.safetensors"):
        (snapshot / "two.safetensors").unlink()
        (snapshot / "two.safetensors").symlink_to(target)
        with pytest.raises(MixlabError, match="leaves its folder"):
            weight_files(snapshot)
    blobs = snapshot.parents[1] / "blobs"
    blobs.rename(root / "elsewhere")
    blobs.symlink_to(root / "elsewhere")
    with pytest.raises(MixlabError, match="leaves its folder"):
        check_inside(snapshot, "one.safetensors")
