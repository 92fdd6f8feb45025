import json
import os
import struct
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file

from mixlab.checkpoint import read_header
from mixlab.spec import MixlabError

GOOD = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4).bfloat16()}, path)
    return path


def with_header(path, text: bytes, data: bytes = b"") -> None:
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def rewrite(path, change) -> None:
    """Write the file again with another header and the same data."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = change(json.loads(raw[8 : 8 + length]))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with_header(path, text, raw[8 + length :])


def test_offsets_point_at_the_bytes(file):
    entry = read_header(file)["b"]
    assert (entry.dtype, entry.shape, entry.stop - entry.start) == ("BF16", (4,), 8)
    raw = file.read_bytes()[entry.start : entry.stop]
    assert torch.frombuffer(bytearray(raw), dtype=torch.bfloat16).tolist() == [1.0] * 4


def changed(**fields):
    return lambda header: {**header, "a": {**header["a"], **fields}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(shape=[2, 4]), "a: 24 bytes cannot hold F32"),
        (changed(dtype="X9"), "unknown dtype 'X9'"),
        (changed(dtype=["F32"]), "unknown dtype"),
        (changed(data_offsets=[8, 32]), "gap or overlap before tensor a: it begins at byte"),
        (changed(data_offsets=[0, 24]), None),
        (changed(data_offsets=[24, 0]), r"offsets \[24, 0\]"),
        (changed(data_offsets=[0, 24, 24]), "two offsets"),
        (changed(data_offsets=[0.0, 24]), "not counts"),
        (changed(data_offsets=None), "two offsets"),
        (changed(shape=[-2, -3]), "not counts"),
        (changed(shape=[True, 6]), "not counts"),
        (changed(shape=[6.0]), "not counts"),
        (changed(shape=["6"]), "not counts"),
        (changed(shape={"6": 1}), "expected an object of dtype, shape and data_offsets"),
        (changed(shape="6"), "a list as shape"),
        (changed(shape=[2**64]), "not counts"),
        (changed(shape=[2**62, 2**62, 2**62]), "cannot hold"),
        (changed(shape=[1] * 100), "100 dimensions"),
        (changed(more=1), "expected dtype, shape and data_offsets, found"),
        (lambda h: {**h, "a": {"dtype": "F32"}}, r"found \['dtype'\]"),
        (lambda h: {**h, "c": {**h["b"]}}, "gap or overlap"),
        (lambda h: {"a": h["a"]}, "the header describes .* bytes, the file holds"),
        (lambda h: {**h, "__metadata__": {"a": 1}}, "texts by name"),
        (lambda h: {**h, "__metadata__": [1]}, "texts by name"),
        (lambda h: b'{"__metadata__":{"a":"\\q"}}', "texts by name"),
        (lambda h: b'{"__metadata__":{"a":"\n"}}', "texts by name"),
        (lambda h: {**h, "\x1b[31m": GOOD}, "do not print"),
        (lambda h: {"a": 3}, "header is not valid"),
        (lambda h: [1], "header is not valid"),
        (lambda h: b"{", "expected the name of a tensor"),
        (lambda h: b"", "header is not valid"),
        (lambda h: b"{1: 2}", "expected the name of a tensor"),
        (lambda h: b"null", "header is not valid"),
        (lambda h: json.dumps(h).encode("utf-16"), "header is not valid"),
        (lambda h: json.dumps(h).encode() + b"{}", "text after its end"),
        (lambda h: json.dumps(h)[:-1].encode() + b",}", "expected the name"),
        (lambda h: b'{"\\ud800": %s}' % json.dumps(GOOD).encode(), "do not print"),
        (lambda h: b'{"\xff\xff": %s}' % json.dumps(GOOD).encode(), "can't decode"),
        (lambda h: b"\xff\xff", "header is not valid"),
        (lambda h: b'{"a": ' + b"[" * 5000, "header is not valid"),
        (
            lambda h: b'{"a":{"dtype":"U8","shape":%s,"data_offsets":[0,2]}}' % (b"[" * 3000),
            "header is not valid",
        ),
        (lambda h: b'{"a":{"dtype":"U8","dtype":"F32","shape":[],"data_offsets":[0,2]}}', "twice"),
        (
            lambda h: b'{"a": %s, "a": %s}' % ((json.dumps(GOOD).encode(),) * 2),
            "names a tensor twice: 'a'",
        ),
        (
            lambda h: b'{"a": %s, "\\u0061": %s}' % ((json.dumps(GOOD).encode(),) * 2),
            "names a tensor twice: 'a'",
        ),
        (
            lambda h: b'{"a":{"dtype":"U8","shape":[%s],"data_offsets":[0,2]}}' % (b"9" * 6000),
            "header is not valid",
        ),
    ],
)
def test_a_lying_header_names_file_and_reason(file, change, message):
    rewrite(file, change)
    if message is None:
        assert set(read_header(file)) == {"a", "b"}
        return
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


ORIGINAL = save(
    {"a": torch.ones(5), "b.é": torch.zeros(2, 3).half(), "c": torch.zeros(0, 2)},
    {"format": "pt", "note": 'a "quoted" {brace}'},
)
LENGTH = 8 + int.from_bytes(ORIGINAL[:8], "little")


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_damaged_file_reads_as_the_library_does_or_is_refused(tmp_path_factory, data):
    """No mutation gives another exception, or an entry that the library does not see."""
    from safetensors import SafetensorError, safe_open

    raw = bytearray(ORIGINAL)
    pieces = st.one_of(
        st.binary(max_size=3),
        st.sampled_from([b"{", b"}", b"[", b"]", b",", b'"', b"\\", b":", b"0", b"1e9", b"-1"]),
    )
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, LENGTH))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(pieces)
    if data.draw(st.booleans()):  # most mutations change the length, and would stop there
        raw[:8] = struct.pack("<Q", LENGTH - 8 + len(raw) - len(ORIGINAL))
    path = tmp_path_factory.mktemp("damaged") / "model.safetensors"
    path.write_bytes(raw)
    try:
        entries = read_header(path)
    except MixlabError as error:
        assert str(path) in str(error)  # noqa: PT017
        return
    try:
        with safe_open(path, "pt") as opened:
            assert set(opened.keys()) == set(entries)
            for name, entry in entries.items():
                part = opened.get_slice(name)
                assert (part.get_dtype(), tuple(part.get_shape())) == (entry.dtype, entry.shape)
    except SafetensorError as error:
        pytest.fail(f"read, but refused by the library: {error}")


def test_an_absurd_length_is_refused_at_once(file):
    file.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(MixlabError, match="truncated or not a safetensors file"):
        read_header(file)
    with pytest.raises(MixlabError, match="cannot be read"):
        read_header(file.parent / "none.safetensors")


@pytest.mark.parametrize(
    "text",
    [
        b'{"__metadata__":' + b"[]," * 3_000_000,
        b'{"__metadata__":{' + b'"":"",' * 1_500_000,
        b'{"a":{"dtype":"U8","shape":[' + b"0," * 4_000_000 + b'0],"data_offsets":[0,0]}}',
        b'{"a":{"dtype":"U8","shape":[' + b"[]," * 3_000_000,
        b'{"' + b"\\u0061" * 1_500_000,
    ],
)
def test_a_hostile_header_costs_no_more_memory_than_its_file(tmp_path, text):
    path = tmp_path / "model.safetensors"
    with_header(path, text)
    tracemalloc.start()
    try:
        with pytest.raises(MixlabError, match="header is not valid"):
            read_header(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(text)


def test_a_pipe_does_not_block_and_a_folder_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(MixlabError, match=r"no regular file|directory"):
            read_header(path)


def test_an_empty_file_and_one_without_tensors(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"")
    with pytest.raises(MixlabError, match="the file holds 0"):
        read_header(path)
    for text in (b"{}", b'{"__metadata__":{}}', b"{  }"):
        with_header(path, text)
        assert read_header(path) == {}


def test_more_tensors_than_any_model_has_are_refused(file, monkeypatch):
    monkeypatch.setattr("mixlab.checkpoint._header._TENSOR_LIMIT", 1)
    with pytest.raises(MixlabError, match="more than 1 tensors"):
        read_header(file)
