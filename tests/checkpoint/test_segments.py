import hashlib
import json
from itertools import pairwise

import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from mixlab.checkpoint import Checkpoint, SegmentDigest, combine_digest, digest_source
from mixlab.checkpoint import _segments as segments
from mixlab.spec import MixlabError


@pytest.fixture
def small(monkeypatch):
    """Segments of 10 bytes."""
    monkeypatch.setattr(segments, "SEGMENT", 10)


def test_a_segment_is_hashed_by_xxh3():
    digest = SegmentDigest(3)
    digest.update(0, memoryview(b"abc"))
    assert digest.finish() == [xxhash.xxh3_128_hexdigest(b"abc")]
    assert SegmentDigest(0).finish() == []


@settings(deadline=None)
@given(st.binary(max_size=60), st.data())
def test_cuts_and_the_order_of_segments_do_not_matter(data, choose):
    before, segments.SEGMENT = segments.SEGMENT, 10
    try:
        digest = SegmentDigest(len(data))
        for start in choose.draw(st.permutations(range(0, len(data), 10))):
            whole = data[start : start + 10]
            cuts = choose.draw(st.sets(st.integers(0, len(whole)))) | {0, len(whole)}
            edges = sorted(cuts)
            for a, b in pairwise(edges):
                digest.update(start + a, memoryview(whole[a:b]))
        expected = [xxhash.xxh3_128_hexdigest(data[i : i + 10]) for i in range(0, len(data), 10)]
        assert digest.finish() == expected
    finally:
        segments.SEGMENT = before


def test_one_buffer_may_span_segments(small):
    data = bytes(range(25))
    digest = SegmentDigest(25)
    digest.update(0, memoryview(data))
    assert digest.finish() == [xxhash.xxh3_128_hexdigest(data[i : i + 10]) for i in (0, 10, 20)]


def test_gaps_repeats_and_missing_bytes_are_refused(small):
    digest = SegmentDigest(25)
    digest.update(10, memoryview(b"abc"))
    for start in (10, 14, 5):
        with pytest.raises(MixlabError, match="continues at byte"):
            digest.update(start, memoryview(b"abc"))
    for start in (-1, 24):
        with pytest.raises(MixlabError, match="of a tensor of 25"):
            digest.update(start, memoryview(b"abc"))
    with pytest.raises(MixlabError, match="3 of 25 bytes"):
        digest.finish()


def test_combining_is_sha256_over_sorted_lines_and_everything_counts():
    a, b = ("F32", (2,), ["00"]), ("F16", [], [])
    lines = '["a","F32",[2],["00"]]\n["b","F16",[],[]]'
    base = combine_digest({"b": b, "a": a})
    assert (
        base == combine_digest({"a": a, "b": b}) == hashlib.sha256(lines.encode()).hexdigest()[:32]
    )
    others = [
        {"a": a},
        {"a": b, "b": a},
        {"a": ("I32", (2,), ["00"]), "b": b},
        {"a": ("F32", (2, 1), ["00"]), "b": b},
        {"a": ("F32", (2,), ["01"]), "b": b},
        {"a": ("F32", (2,), ["00", "00"]), "b": b},
    ]
    assert len({base, *map(combine_digest, others)}) == len(others) + 1


def test_shards_and_sources_do_not_matter_and_bits_do(tmp_path, small):
    state = {
        "x": torch.randn(7),
        "y": torch.ones(3).half(),
        "n": torch.zeros(0),
        "s": torch.tensor(1),
    }
    for name, files in {"one": [list(state)], "two": [["x"], ["n", "s", "y"]]}.items():
        folder = tmp_path / name
        folder.mkdir()
        index = {}
        for place, names in enumerate(files):
            file = "model.safetensors" if len(files) == 1 else f"{place}.safetensors"
            save_file({n: state[n] for n in names}, folder / file)
            index.update(dict.fromkeys(names, file))
        if len(files) > 1:
            text = json.dumps({"weight_map": index})
            (folder / "model.safetensors.index.json").write_text(text)

    class Whole(Checkpoint):
        def streams(self, name):
            return False

    with Checkpoint(tmp_path / "one") as one, Checkpoint(tmp_path / "two") as two:
        base = digest_source(one)
        assert digest_source(two) == base
    with Whole(tmp_path / "one") as whole:
        assert digest_source(whole) == base
    save_file({**state, "x": -state["x"]}, tmp_path / "one" / "model.safetensors")
    with Checkpoint(tmp_path / "one") as other:
        assert digest_source(other) != base
