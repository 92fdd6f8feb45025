import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import save_file

from mixlab.checkpoint import Checkpoint, spell, tensor_size, torch_dtype
from mixlab.checkpoint._dtypes import BITS
from mixlab.spec import MixlabError

DTYPES = [spelling for spelling, bits in BITS.items() if bits >= 8]


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.reshape(-1).view(torch.uint8).tolist()


@pytest.fixture
def state():
    """A tensor of every dtype, of random bits; a scalar and an empty one."""
    generator = torch.Generator().manual_seed(0)
    found = {}
    for spelling in DTYPES:
        raw = torch.randint(0, 2, (6 * BITS[spelling] // 8,), generator=generator).byte()
        found[spelling] = raw.view(torch_dtype(spelling)).reshape(2, 3)
    return {**found, "scalar": torch.tensor(2.5), "empty": torch.empty(0, 4).half()}


@pytest.fixture
def folder(state, tmp_path):
    save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    return tmp_path


def test_every_dtype_and_shape_is_read_bit_for_bit(folder, state):
    with Checkpoint.open(folder, key="k") as checkpoint:
        assert checkpoint.key == "k"
        assert set(checkpoint.entries) == set(state)
        for name, tensor in state.items():
            read = checkpoint.read(name)
            assert (read.dtype, read.shape) == (tensor.dtype, tensor.shape)
            assert bits(read) == bits(tensor)
            assert spell(read.dtype) == checkpoint.entries[name].dtype


def test_entries_come_in_the_order_of_the_bytes(folder):
    with Checkpoint(folder) as checkpoint:
        starts = [entry.start for entry in checkpoint.entries.values()]
        assert starts == sorted(starts)
        raw = checkpoint.file_of("scalar").read_bytes()
        at = checkpoint.offset("scalar")
        assert raw[at : at + 4] == bytes(bits(torch.tensor(2.5)))


def test_parts_are_read_into_the_callers_buffer_by_many_threads(tmp_path):
    tensor = torch.arange(100_000, dtype=torch.int32)
    save_file({"x": tensor}, tmp_path / "model.safetensors")
    raw = memoryview(tensor.numpy()).cast("B")
    with Checkpoint(tmp_path) as checkpoint, ThreadPoolExecutor(4) as threads:

        def read(start: int) -> bool:
            buffer = torch.zeros(250, dtype=torch.int32)
            checkpoint.read_into("x", buffer.numpy().data, start)
            return bytes(buffer.numpy().data) == raw[start : start + 1000]

        assert all(threads.map(read, range(0, 399_000, 777)))


@pytest.mark.parametrize("start", [-1, 21, 100])
def test_bytes_outside_a_tensor_are_refused(folder, start):
    with Checkpoint(folder) as checkpoint, pytest.raises(MixlabError, match="F32 has 24 bytes"):
        checkpoint.read_into("F32", memoryview(bytearray(4)), start)
    with Checkpoint(folder) as checkpoint, pytest.raises(MixlabError, match="no tensor none"):
        checkpoint.read("none")


def test_a_file_cut_short_after_opening_is_named(folder):
    with Checkpoint(folder) as checkpoint:
        last = list(checkpoint.entries)[-1]
        os.truncate(folder / "model.safetensors", checkpoint.offset(last))
        with pytest.raises(MixlabError, match=rf"ends at byte .* within tensor {last}"):
            checkpoint.read(last)


def test_a_file_written_to_after_opening_is_named(folder):
    path = folder / "model.safetensors"
    with Checkpoint(folder) as checkpoint:
        checkpoint.unchanged()
        os.utime(path, ns=(1, 1))
        with pytest.raises(MixlabError, match=r"model\.safetensors changed since it was opened"):
            checkpoint.read("F32")
        with pytest.raises(MixlabError, match="changed since"):
            checkpoint.unchanged()


def test_a_replaced_or_removed_file_is_noticed(folder):
    path = folder / "model.safetensors"
    with Checkpoint(folder) as checkpoint:
        path.rename(folder / "old")
        with pytest.raises(MixlabError, match="changed since"):
            checkpoint.unchanged()
        path.write_bytes((folder / "old").read_bytes())
        with pytest.raises(MixlabError, match="changed since"):
            checkpoint.unchanged()
        checkpoint.read("F32")  # the opened file itself is whole


def test_it_closes_its_files_and_says_so(folder):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with Checkpoint(folder) as checkpoint:
        files = checkpoint.files
    assert checkpoint.files == files == (folder / "model.safetensors",)
    with pytest.raises(MixlabError, match="was closed"):
        checkpoint.read("F32")
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(MixlabError):
        Checkpoint(folder)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize(
    ("config", "tied"),
    [
        ({}, None),
        ({"tie_word_embeddings": True}, True),
        ({"text_config": {"tie_word_embeddings": False}}, False),
        ({"tie_word_embeddings": True, "text_config": {"tie_word_embeddings": False}}, True),
        ({"text_config": None}, None),
    ],
)
def test_whether_the_config_ties_the_head(folder, config, tied):
    (folder / "config.json").write_text(json.dumps(config))
    with Checkpoint(folder) as checkpoint:
        assert checkpoint.config() == config
        assert checkpoint.tied is tied


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 99_999, "\ud800"])
def test_a_damaged_config_is_named(folder, text):
    (folder / "config.json").write_bytes(text.encode(errors="surrogatepass"))
    with Checkpoint(folder) as checkpoint, pytest.raises(MixlabError, match=r"config\.json"):
        checkpoint.config()
    (folder / "config.json").unlink()
    with Checkpoint(folder) as checkpoint, pytest.raises(MixlabError, match=r"no config\.json"):
        checkpoint.config()


def test_types_narrower_than_a_byte_are_sized_but_not_mixed():
    assert tensor_size("F4", (3, 2)) == 3
    with pytest.raises(MixlabError, match="does not fill whole bytes"):
        tensor_size("F4", (3,))
    with pytest.raises(MixlabError, match="takes 4 bits"):
        torch_dtype("F4")
    with pytest.raises(MixlabError, match="unknown dtype 'bfloat16'"):
        torch_dtype("bfloat16")
    with pytest.raises(MixlabError, match="complex128: safetensors files cannot hold"):
        spell(torch.complex128)
