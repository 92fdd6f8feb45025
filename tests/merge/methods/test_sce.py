import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import sce
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import models, theirs


@settings(deadline=None, max_examples=60)
@given(models(3), st.integers(1, 3), st.one_of(st.just(1.0), st.floats(0, 1)))
def test_agrees_with_mergekit(drawn, count, share):
    tensors, base = drawn[0][:count], drawn[1]
    expected = theirs("sce", tensors, base, select_topk=share)
    ours = sce(tensors, base, select_topk=share)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_select_calculate_erase_by_hand():
    base = torch.zeros(4)
    tensors = [torch.tensor([3.0, 1.0, -1.0, 0.0]), torch.tensor([-1.0, 1.0, 2.0, 0.0])]
    # Variances 4, 0, 2.25, 0: half of the two that vary is the first. Squares 9 and 1.
    assert sce(tensors, base, select_topk=0.5).tolist() == pytest.approx([3, 0, 0, 0])
    # Of all: squares 11 and 6; signs of the sums +, +, +.
    assert sce(tensors, base).tolist() == pytest.approx([3, 1, 2, 0])


def test_ties_at_the_edge_are_selected_together():
    x = torch.tensor([1.0, -1.0, 1.0, 0.5])
    theta = sce([x, torch.zeros(4)], torch.zeros(4), select_topk=0.3)
    assert theta.tolist() == pytest.approx([1, -1, 1, 0])


def test_share_outside_0_to_1_is_refused():
    with pytest.raises(MixlabError, match="select_topk"):
        sce([torch.zeros(1)], torch.zeros(1), select_topk=1.5)
