import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method, linear
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import bits, models, theirs

WEIGHTS = st.lists(st.floats(-2, 2, width=16), min_size=3, max_size=3)


def test_weights_are_divided_by_their_sum():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 2.0])
    assert linear([x, y], weight=[3, 1]).tolist() == [2.0, 2.0]
    assert linear([x, y], weight=[3, 1], normalize=False).tolist() == [8.0, 8.0]


@settings(deadline=None)
@given(models(3), WEIGHTS, st.integers(1, 3), st.booleans())
def test_agrees_with_mergekit(drawn, weights, count, normalize):
    tensors, weights = drawn[0][:count], weights[:count]
    assume(not normalize or abs(sum(weights)) > 0.1)
    ours = linear(tensors, weight=weights, normalize=normalize)
    expected = theirs("linear", tensors, each={"weight": weights}, normalize=normalize)
    # Weights up to 2 / 0.1 magnify the rounding of float32.
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=2e-5)


@settings(deadline=None)
@given(WEIGHTS, st.integers(1, 3), st.booleans())
def test_fast_path_is_the_formula(weights, count, normalize):
    assume(not normalize or abs(sum(weights[:count])) > 0.1)
    generator = torch.Generator().manual_seed(count)
    tensors = [torch.randn(1000, generator=generator).bfloat16() for _ in range(count)]
    tensors[0][:2], tensors[-1][:2] = -0.0, -0.0
    method = get_method("linear")
    given = method.settings({"weight": weights[:count], "normalize": normalize}, count)
    fast, plain = (method.apply(tensors, None, given, Context(), plain=p) for p in (False, True))
    torch.testing.assert_close(fast, plain, rtol=2**-7, atol=1e-4)
    assert (bits(fast) == bits(plain)) or bool((fast != plain).float().mean() < 0.05)


def test_no_element_depends_on_the_part_that_it_is_in():
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(400_000, generator=generator).bfloat16() for _ in range(3)]
    whole = linear(tensors, weight=[1, 2, 3])
    cut = [linear([x[a:b] for x in tensors], weight=[1, 2, 3]) for a, b in ((0, 777), (777, None))]
    assert bits(whole) == bits(torch.cat(cut))


def test_weights_that_cancel_are_refused():
    x = torch.ones(2)
    with pytest.raises(MixlabError, match="sum to 0"):
        linear([x, x], weight=[1, -1])
    assert linear([x, 3 * x], weight=[1, -1], normalize=False).tolist() == [-2, -2]
    with pytest.raises(MixlabError, match="weight has 3 values for 2 models"):
        linear([x, x], weight=[1, 2, 3])
