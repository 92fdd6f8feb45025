import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method, nearswap
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import models, theirs


@settings(deadline=None)
@given(models(1), st.floats(0, 2))
def test_agrees_with_mergekit(drawn, t):
    tensors, base = drawn
    expected = theirs("nearswap", tensors, base, t=t)
    torch.testing.assert_close(nearswap(tensors, base, t=t), expected, rtol=1e-5, atol=1e-6)


def test_moves_at_most_t():
    base, other = torch.tensor([0.0, 0.0, 4.0]), torch.tensor([0.25, 3.0, 1.0])
    assert nearswap([other], base, t=0.5).tolist() == [0.25, 0.5, 3.5]
    with pytest.raises(MixlabError, match="t: "):
        nearswap([other], base, t=-1)


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 1))
def test_fast_path_is_the_formula(t):
    generator = torch.Generator().manual_seed(1)
    base, other = (torch.randn(70_000, generator=generator).half() for _ in range(2))
    method = get_method("nearswap")
    fast, plain = (method.apply([other], base, {"t": t}, Context(), plain=p) for p in (False, True))
    torch.testing.assert_close(fast, plain, rtol=2**-10, atol=0)
