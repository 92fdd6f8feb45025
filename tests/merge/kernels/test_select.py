"""Selection by counting, held to sorting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge.kernels import _select
from mixlab.merge.kernels._select import Bits, Cut, Parts, find_cuts, stricter, threshold_cut

KINDS = ["normal", "few values", "zeros", "one bin", "denormal and huge"]


def draw(kind: str, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "few values":
        values = rng.choice(np.float32([0, 0.5, -0.5, 1, 1.0001]), size)
    elif kind == "zeros":
        values = np.zeros(size)
    elif kind == "one bin":
        values = 1 + rng.integers(0, 50, size) * 2.0**-23
    elif kind == "denormal and huge":
        values = rng.choice([1e-42, 3e-45, 3e38, np.inf, -1e-42, 1], size)
    else:
        values = rng.normal(size=size)
    return np.asarray(values, np.float32)


def passes(values: np.ndarray, part: int = 1 << 17) -> Parts:
    """Passes over the magnitude bits of `values`, each part in the same place."""

    def start() -> Iterator[Bits]:
        room = np.empty(part, np.int32)
        for at in range(0, values.size, part):
            bits = room[: min(part, values.size - at)]
            bits[:] = np.abs(values[at : at + part]).view(np.int32)
            yield bits

    return start


def first(values: np.ndarray, cut: Cut, part: int) -> np.ndarray:
    bits = np.abs(values).view(np.int32)
    kept = np.empty(values.size, bool)
    for start in range(0, values.size, part):
        cut.first(bits[start : start + part], start, kept[start : start + part])
    return kept


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(KINDS),
    st.integers(1, 300),
    st.integers(0, 2**16),
    st.lists(st.floats(0, 1), min_size=1, max_size=3),
    st.integers(1, 120),
    st.sampled_from([0, _select.FEW]),
)
def test_the_first_k_are_those_of_a_stable_sort(kind, size, seed, shares, part, few):
    values = draw(kind, size, seed)
    counts = [round(share * size) for share in shares]
    with pytest.MonkeyPatch.context() as patch:  # counted, or selected as few
        patch.setattr(_select, "FEW", few)
        cuts = find_cuts(passes(values, part), size, counts)
    # Descending, and earlier elements first among equals.
    order = np.argsort(-np.abs(values), kind="stable")
    for count, cut in zip(counts, cuts, strict=True):
        expected = np.zeros(size, bool)
        expected[order[:count]] = True
        assert np.array_equal(first(values, cut, part), expected)


def test_nan_is_larger_than_any_number() -> None:
    values = np.float32([3, np.nan, np.inf, 1])
    (cut,) = find_cuts(passes(values), 4, [1])
    assert first(values, cut, 4).tolist() == [False, True, False, False]


def test_a_large_tensor_with_ties_over_many_parts() -> None:
    drawn = torch.randn(1 << 20, generator=torch.Generator().manual_seed(0)).bfloat16()
    values = drawn.float().numpy()
    bits = np.abs(values).view(np.int32)
    (cut,) = find_cuts(passes(values), bits.size, [bits.size // 3])
    kept = first(values, cut, 1 << 17)
    assert int(kept.sum()) == bits.size // 3
    assert bits[kept].min() >= bits[~kept].max()
    ties = np.flatnonzero(bits == cut.bits)
    assert len(ties) > 1000
    assert kept[ties[ties < cut.stop]].all()
    assert not kept[ties[ties >= cut.stop]].any()


@pytest.mark.parametrize("size", [0, 1])
def test_nothing_or_one(size: int) -> None:
    values = np.zeros(size, np.float32)
    none, every = find_cuts(passes(values), size, [0, size])
    assert first(values, none, 1).tolist() == [False] * size
    assert first(values, every, 1).tolist() == [True] * size


@given(st.floats(0, 2, width=32), st.integers(0, 40))
def test_the_stricter_of_two_cuts_keeps_what_both_keep(threshold: float, count: int) -> None:
    values = draw("few values", 40, 1)
    (by_count,) = find_cuts(passes(values), 40, [count])
    by_size = threshold_cut(threshold, 40)
    both = first(values, by_count, 7) & first(values, by_size, 7)
    assert np.array_equal(first(values, stricter(by_count, by_size), 7), both)
    assert np.array_equal(first(values, by_size, 7), np.abs(values) >= np.float32(threshold))
