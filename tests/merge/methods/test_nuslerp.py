import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mixlab.merge import nuslerp
from tests.merge.methods.oracle import KINDS, models, theirs

WEIGHT = st.floats(0, 2, width=16)


def separated(vectors: list[torch.Tensor], dim: int) -> bool:
    """No two vectors nearly, but not exactly, antiparallel: there the result is all rounding."""
    a, b = (v / v.norm(dim=dim, keepdim=True).clamp(min=1e-7) for v in vectors)
    return bool(((a * b).sum(dim) > -0.99).all())


@settings(deadline=None, max_examples=60)
@given(
    models(2, KINDS.filter(lambda kind: kind != "opposite")),
    st.tuples(WEIGHT, WEIGHT),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_agrees_with_mergekit(drawn, weight, based, rows, flatten):
    tensors, base = drawn
    base = base if based else None
    vectors = [x - base if based else x for x in tensors]
    flat = [v.flatten() for v in vectors]
    assume(separated(flat, 0) if flatten else separated(vectors, 0 if rows else -1))
    switches = {"nuslerp_row_wise": rows, "nuslerp_flatten": flatten}
    expected = theirs("nuslerp", tensors, base, each={"weight": weight}, **switches)
    ours = nuslerp(tensors, base, weight=weight, **switches)
    # Near 0 and pi the angle of float32 is good to 4e-4, and 1 / sin magnifies what is left.
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_weights_give_the_angle_and_a_sum_of_zero_the_middle():
    x, y = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    third = nuslerp([x, y], weight=[2, 1]).tolist()
    assert third == pytest.approx([math.cos(math.pi / 6), math.sin(math.pi / 6)])
    assert nuslerp([x, y], weight=[1, -1]).tolist() == pytest.approx([math.sqrt(0.5)] * 2)


def test_opposite_vectors_meet_on_the_line_as_in_mergekit():
    x = torch.tensor([1.0, 0.0])
    assert nuslerp([x, -x], weight=[3, 1]).tolist() == [0.5, 0.0]


@settings(deadline=None)
@given(st.integers(0, 99), st.floats(0.1, 3))
def test_no_weights_explode_between_antiparallel_vectors(seed, scale):
    x = torch.randn(50, generator=torch.Generator().manual_seed(seed))
    theta = nuslerp([x, -scale * x], weight=[3, 1])
    torch.testing.assert_close(theta, (0.75 - 0.25 * scale) * x, rtol=1e-4, atol=1e-5)
