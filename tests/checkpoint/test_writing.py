import errno
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save, save_file

from mixlab.checkpoint import Checkpoint, OutTensor, Shard, ShardWriter, plan_shards, spell
from mixlab.checkpoint import _copying as copying
from mixlab.spec import MixlabError

STATE = {
    "z": torch.arange(6.0).reshape(2, 3),
    "a": torch.ones(3).bfloat16(),
    "flag": torch.tensor(True),
    "ids": torch.arange(3),
    "wide": torch.ones(2).double(),
    "none": torch.zeros(0, 4).half(),
    "ü": torch.ones(5, dtype=torch.uint8),
    "eight": torch.ones(4).to(torch.float8_e5m2),
    "bytes": torch.ones(3, dtype=torch.int8),
    "complex": torch.ones(2, dtype=torch.complex64),
}


def planned(state):
    return [OutTensor(name, spell(t.dtype), tuple(t.shape)) for name, t in state.items()]


def raw(tensor):
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def write(folder, state, **how):
    with ShardWriter(folder, plan_shards(planned(state), **how)) as writer:
        for name, tensor in state.items():
            writer.write(name, 0, raw(tensor))
        writer.finish()


def test_a_file_is_byte_for_byte_what_the_library_writes(tmp_path):
    write(tmp_path, STATE)
    assert os.listdir(tmp_path) == ["model.safetensors"]  # noqa: PTH208
    assert (tmp_path / "model.safetensors").read_bytes() == save(STATE, {"format": "pt"})


def test_shards_are_read_by_the_library_and_by_transformers_rules(tmp_path):
    write(tmp_path, STATE, max_bytes=40)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    count = len(set(index["weight_map"].values()))
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in STATE.values())
    assert count == 3
    for name, file in index["weight_map"].items():
        assert file.endswith(f"-of-{count:05}.safetensors")
        with safe_open(tmp_path / file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}
            assert torch.equal(opened.get_tensor(name).view(-1), STATE[name].view(-1))
    with Checkpoint(tmp_path) as checkpoint:
        assert set(checkpoint.entries) == set(STATE)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20), st.one_of(st.none(), st.integers(1, 60))
)
def test_shards_hold_every_tensor_once_and_no_more_than_the_limit(sizes, limit):
    tensors = [OutTensor(f"t{i}", "U8", (size,)) for i, size in enumerate(sizes)]
    shards = plan_shards(tensors, max_bytes=limit)
    assert [t for shard in shards for t in shard.tensors] == tensors
    assert all(shard.size <= (limit or 10**9) or len(shard.tensors) == 1 for shard in shards)
    for first, second in pairwise(shards):
        assert first.size + second.tensors[0].size > limit  # filled as far as it goes
    names = [shard.file_name for shard in shards]
    if len(shards) == 1:
        assert names == ["model.safetensors"]
    else:
        assert names == [
            f"model-{i:05}-of-{len(names):05}.safetensors" for i in range(1, len(names) + 1)
        ]


def test_shards_follow_another_model_and_newcomers_their_predecessor():
    tensors = [OutTensor(name, "U8", (1,)) for name in ("new", "a", "b", "newer", "c")]
    like = {"a": "x-2", "b": "x-1", "c": "x-2", "dropped": "x-0"}
    shards = plan_shards(tensors, like=like)
    assert [[t.name for t in shard.tensors] for shard in shards] == [
        ["b", "newer"],
        ["new", "a", "c"],
    ]
    assert shards[0].file_name == "model-00001-of-00002.safetensors"
    assert plan_shards([]) == (Shard("model.safetensors", ()),)


def test_shards_refuse_a_name_twice_and_no_size():
    tensor = OutTensor("a", "U8", (1,))
    with pytest.raises(MixlabError, match="tensor a would be written twice"):
        plan_shards([tensor, tensor])
    with pytest.raises(MixlabError, match="positive"):
        plan_shards([tensor], max_bytes=0)


def test_parts_of_a_tensor_in_any_order_from_two_threads(tmp_path):
    tensor = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    parts = [(start, min(37, 4000 - start)) for start in range(0, 4000, 37)]
    random.Random(0).shuffle(parts)
    with ShardWriter(tmp_path, plan_shards(planned({"x": tensor}))) as writer:
        with ThreadPoolExecutor(2) as threads:
            done = threads.map(
                lambda p: writer.write("x", p[0], raw(tensor)[p[0] : p[0] + p[1]]), parts
            )
            assert len(list(done)) == len(parts)
        writer.finish()
    assert torch.equal(load_file(tmp_path / "model.safetensors")["x"], tensor)


@pytest.mark.parametrize("by_kernel", [True, False])
@pytest.mark.parametrize("opened", [True, False])
def test_tensors_are_copied_across_files(tmp_path, monkeypatch, by_kernel, opened):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    save_file(STATE, source / "model.safetensors")
    if not by_kernel:

        def refuse(*_):
            raise OSError(errno.EXDEV, "other file system")

        monkeypatch.setattr(copying.os, "copy_file_range", refuse)
    with (
        Checkpoint(source) as checkpoint,
        ShardWriter(out, plan_shards(planned(STATE), max_bytes=30)) as writer,
    ):
        for name, entry in checkpoint.entries.items():
            half = (entry.stop - entry.start) // 2
            file = checkpoint.descriptor(name) if opened else checkpoint.file_of(name)
            for start, length in ((half, entry.stop - entry.start - half), (0, half)):
                writer.copy_from(file, entry.start + start, name, start, length)
        writer.finish()
    with Checkpoint(out) as checkpoint:
        for name, tensor in STATE.items():
            assert bytes(raw(checkpoint.read(name))) == bytes(raw(tensor))


def test_a_source_cut_short_is_named(tmp_path):
    (tmp_path / "short").write_bytes(b"ab")
    with (
        ShardWriter(tmp_path, plan_shards([OutTensor("x", "U8", (4,))])) as writer,
        pytest.raises(MixlabError, match="file of x was cut short"),
    ):
        writer.copy_from(tmp_path / "short", 0, "x", 0, 4)


def test_an_incomplete_or_doubled_tensor_is_refused(tmp_path):
    with ShardWriter(tmp_path, plan_shards([OutTensor("x", "U8", (4,))])) as writer:
        writer.write("x", 0, memoryview(b"ab"))
        with pytest.raises(MixlabError, match="2 bytes of x were written, expected 4"):
            writer.finish()
        writer.write("x", 0, memoryview(b"abcd"))
        with pytest.raises(MixlabError, match="6 bytes of x were written, expected 4"):
            writer.finish()
        for start, data in ((3, b"ab"), (-1, b"a")):
            with pytest.raises(MixlabError, match="x has 4 bytes"):
                writer.write("x", start, memoryview(data))
        with pytest.raises(MixlabError, match="y: not in the plan"):
            writer.write("y", 0, memoryview(b""))


def test_a_full_disk_shows_before_the_first_tensor_is_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        ShardWriter(tmp_path, plan_shards(planned(STATE))) as writer,
        pytest.raises(MixlabError, match=r"disk is full: could not write .*model\.safetensors"),
    ):
        writer.preallocate()


def test_a_disk_that_fills_while_tensors_are_written(tmp_path, monkeypatch):
    with ShardWriter(tmp_path, plan_shards(planned(STATE))) as writer:
        writer.preallocate()

        def full(*_):
            raise OSError(errno.ENOSPC, "full")

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(MixlabError, match="disk is full"):
            writer.write("z", 0, raw(STATE["z"]))


def test_a_file_system_without_preallocation_is_written_all_the_same(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    write(tmp_path, STATE)
    assert (tmp_path / "model.safetensors").read_bytes() == save(STATE, {"format": "pt"})


@pytest.mark.parametrize("hard", [True, False])
def test_an_untouched_shard_is_taken_whole(tmp_path, hard):
    source, out = tmp_path / "in", tmp_path / "out"
    out.mkdir()
    source.mkdir()
    save_file({"a": torch.ones(4)}, source / "other.safetensors")
    tensors = [OutTensor("a", "F32", (4,)), OutTensor("b", "F32", (4,))]
    shards = plan_shards(tensors, max_bytes=16)
    with ShardWriter(out, shards) as writer:
        with pytest.raises(MixlabError, match=r"does not hold the tensors of .*00002.*, e\.g\. a"):
            writer.link_or_copy(source / "other.safetensors", shards[1].file_name)
        writer.link_or_copy(source / "other.safetensors", shards[0].file_name, hard=hard)
        with pytest.raises(MixlabError, match="taken whole"):
            writer.write("a", 0, memoryview(bytes(16)))
        writer.write("b", 0, memoryview(bytes(16)))
        with pytest.raises(MixlabError, match="before any tensor"):
            writer.link_or_copy(source / "other.safetensors", shards[1].file_name)
        writer.finish()
    with Checkpoint(out) as checkpoint:
        assert checkpoint.read("a").tolist() == [1] * 4
        assert checkpoint.read("b").tolist() == [0] * 4
    assert (out / shards[0].file_name).samefile(source / "other.safetensors") is hard


def test_files_that_stand_there_are_not_overwritten(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"precious")
    with (
        ShardWriter(tmp_path, plan_shards(planned(STATE))) as writer,
        pytest.raises(MixlabError, match=r"model\.safetensors is there already"),
    ):
        writer.preallocate()
    assert (tmp_path / "model.safetensors").read_bytes() == b"precious"
    with pytest.raises(MixlabError, match="names of their own"):
        ShardWriter(tmp_path, [Shard("../x.safetensors", ())])
