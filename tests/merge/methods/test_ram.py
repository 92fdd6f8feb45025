import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import ram, ramplus_tl
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import models, theirs


@settings(deadline=None)
@given(models(3), st.integers(1, 3), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_agree_with_mergekit(drawn, count, epsilon, r, alpha):
    tensors, base = drawn[0][:count], drawn[1]
    expected = theirs("ram", tensors, base, epsilon=epsilon)
    torch.testing.assert_close(ram(tensors, base, epsilon=epsilon), expected, rtol=1e-5, atol=1e-5)
    given = {"epsilon": max(epsilon, 1e-5), "r": r, "alpha": alpha}
    expected = theirs("ramplus_tl", tensors, base, **given)
    torch.testing.assert_close(ramplus_tl(tensors, base, **given), expected, rtol=1e-5, atol=1e-5)


def test_a_lone_change_is_not_diluted():
    base = torch.tensor([1.0, 1.0, 1.0])
    tensors = [torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 4.0, 1.0])]
    assert ram(tensors, base).tolist() == [3.0, 3.0, 1.0]
    # One element alone, one shared: the first counts 1 + 0.5 * min(0.2, 1 / 1).
    theta = ramplus_tl(tensors, base, r=0.5, alpha=0.2)
    assert theta.tolist() == pytest.approx([1 + 2 * 1.1, 3.0, 1.0])


def test_a_negative_epsilon_is_refused():
    with pytest.raises(MixlabError, match="epsilon"):
        ram([torch.zeros(1)], torch.zeros(1), epsilon=-1)
