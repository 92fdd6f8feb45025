import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from mixlab.checkpoint import read_header, read_state, weight_files
from mixlab.spec import MixlabError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4).bfloat16()}, path)
    return path


def rewrite(path, change) -> None:
    """Write the file again with another header and the same data."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = change(json.loads(raw[8 : 8 + length]))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


def test_offsets_point_at_the_bytes(file):
    entry = read_header(file)["b"]
    assert (entry.dtype, entry.shape, entry.stop - entry.start) == ("BF16", (4,), 8)
    raw = file.read_bytes()[entry.start : entry.stop]
    assert torch.frombuffer(bytearray(raw), dtype=torch.bfloat16).tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: {**h, "a": {**h["a"], "shape": [2, 4]}}, "a: 24 bytes cannot hold F32"),
        (lambda h: {**h, "a": {**h["a"], "dtype": "X9"}}, "unknown dtype 'X9'"),
        (lambda h: {**h, "a": {**h["a"], "data_offsets": [8, 32]}}, "gap or overlap"),
        (lambda h: {**h, "a": {**h["a"], "shape": [-2, -3]}}, "not counts"),
        (lambda h: {**h, "a": {**h["a"], "shape": [True, 6]}}, "not counts"),
        (lambda h: {"a": 3}, "header is not valid"),
        (lambda h: [1], "header is not valid"),
        (lambda h: b'{"a": 1, "a": 2}', "names a tensor twice"),
        (lambda h: b"\xff\xff", "header is not valid"),
    ],
)
def test_a_lying_header_names_file_and_reason(file, change, message):
    rewrite(file, change)
    with pytest.raises(MixlabError, match=rf"(?s)model\.safetensors.*{message}"):
        read_header(file)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_no_prefix_of_a_file_passes(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "model.safetensors"
    save_file({"a": torch.ones(5)}, path)
    raw = path.read_bytes()
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(MixlabError, match=r"model\.safetensors"):
        read_header(path)


def test_an_absurd_length_is_refused_at_once(file):
    file.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(MixlabError, match="truncated or not a safetensors file"):
        read_header(file)
    with pytest.raises(MixlabError, match="cannot be read"):
        read_header(file.parent / "none.safetensors")


def test_the_index_stays_in_its_folder(file, tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    for name, message in (
        ("../model.safetensors", "not a bare file name"),
        ("other.safetensors", "which is missing"),
    ):
        index.write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(MixlabError, match=message):
            weight_files(tmp_path)
    index.write_text("{")
    with pytest.raises(MixlabError, match="not a valid index"):
        weight_files(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": file.name, "b": file.name}}))
    assert weight_files(tmp_path) == [file]


def test_pickled_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(MixlabError, match=r"no model\.safetensors"):
        weight_files(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(MixlabError, match="save_pretrained"):
        weight_files(tmp_path)


def test_a_name_in_two_shards_is_refused(file, tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "second.safetensors")
    weights = {"a": file.name, "c": "second.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    with pytest.raises(MixlabError, match="a also stands in another shard"):
        read_state(tmp_path)
