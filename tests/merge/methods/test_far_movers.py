from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import keep_far_movers
from mixlab.spec import MixlabError


def test_by_hand():
    base = torch.zeros(5)
    tuned = torch.tensor([1.0, -3.0, 2.0, 0.5, -2.0])
    far = keep_far_movers([tuned], base, density=0.4)
    assert far.tolist() == [0, -3, 2, 0, 0], "of two that moved alike the earlier"
    near = keep_far_movers([tuned], base, density=0.4, which="near")
    assert near.tolist() == [1, 0, 0, 0.5, 0]


def test_rows_by_length():
    base = torch.ones(3, 2)
    tuned = base + torch.tensor([[3.0, 3.0], [0.0, 4.0], [4.1, 0.0]])
    theta = keep_far_movers([tuned], base, density=0.34, unit="row")
    assert theta.tolist() == [[4, 4], [1, 1], [1, 1]]
    theta = keep_far_movers([tuned], base, density=0.34, unit="row", which="near")
    assert theta.tolist() == [[1, 1], [1, 5], [1, 1]]


SHAPES = st.sampled_from([(1,), (10,), (4, 5), (3, 2, 4)])


@settings(deadline=None, max_examples=80)
@given(
    SHAPES,
    st.integers(0, 99),
    st.integers(0, 100),
    st.sampled_from(["far", "near"]),
    st.sampled_from(["element", "row"]),
    st.booleans(),
)
def test_exact_count_and_order_by_brute_force(shape, seed, percent, which, unit, coarse):
    generator = torch.Generator().manual_seed(seed)
    base = torch.randint(-2, 3, shape, generator=generator).float()
    move = torch.randn(shape, generator=generator)
    # Coarse moves tie often; none is 0, so that what was kept shows.
    move = move.sign() * (move.abs().ceil() if coarse else move.abs() + 0.01)
    tuned = base + move
    theta = keep_far_movers([tuned], base, density=percent / 100, which=which, unit=unit)
    move = (tuned - base).abs()
    by_row = unit == "row" and move.dim() > 1
    moved = (move.flatten(1).norm(dim=1) if by_row else move.flatten()).tolist()
    sign = -1 if which == "far" else 1
    order = sorted(range(len(moved)), key=lambda i: (sign * moved[i], i))
    count = percent * len(moved) // 100
    expected = base.flatten().clone().view(len(moved), -1)
    expected[order[:count]] = tuned.view(len(moved), -1)[order[:count]]
    assert torch.equal(theta, expected.view(shape))


@pytest.mark.parametrize("options", [{}, {"unit": "row"}, {"which": "near"}])
def test_ends_are_exact(options: dict[str, Any]):
    generator = torch.Generator().manual_seed(0)
    base, tuned = (torch.randn(4, 3, generator=generator).bfloat16() for _ in range(2))
    assert torch.equal(keep_far_movers([tuned], base, density=0, **options), base)
    assert torch.equal(keep_far_movers([tuned], base, density=1, **options), tuned)


def test_settings_are_checked():
    x = torch.zeros(2)
    with pytest.raises(MixlabError, match=r"density.*1\.5"):
        keep_far_movers([x], x, density=1.5)
    with pytest.raises(MixlabError, match=r"which.*'farthest'"):
        keep_far_movers([x], x, which="farthest")
