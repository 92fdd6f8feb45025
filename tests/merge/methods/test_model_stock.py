import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mixlab.merge import model_stock
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import models, theirs


@settings(deadline=None, max_examples=60)
@given(models(3), st.integers(2, 3), st.booleans())
def test_agrees_with_mergekit(drawn, count, filter_wise):
    tensors, base = drawn[0][:count], drawn[1]
    vectors = [x - base if filter_wise else (x - base).flatten() for x in tensors]
    cosine = sum(
        torch.nn.functional.cosine_similarity(vectors[i], vectors[j], dim=-1)
        for i in range(count)
        for j in range(i)
    ) / (count * (count - 1) / 2)
    below = 1 + (count - 1) * cosine
    # At the pole of t the result is all rounding; at exactly 0 both keep the base.
    assume(bool((below.abs() > 1e-2).all()))
    expected = theirs("model_stock", tensors, base, filter_wise=filter_wise)
    ours = model_stock(tensors, base, filter_wise=filter_wise)
    torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-3)


def test_the_ratio_of_the_paper():
    base, x, y = torch.zeros(2), torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8])
    t = 2 * 0.6 / 1.6
    assert model_stock([x, y], base).tolist() == pytest.approx([0.8 * t, 0.4 * t])


def test_opposite_moves_keep_the_base():
    base, x = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0])
    assert model_stock([base + x, base - x], base).tolist() == [1.0, 2.0]


def test_one_model_is_too_few():
    with pytest.raises(MixlabError, match="merges 2 or more models"):
        model_stock([torch.zeros(2)], torch.zeros(2))
