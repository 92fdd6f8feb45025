import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import passthrough
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import bits, models, theirs


@settings(deadline=None)
@given(models(1), st.floats(-2, 2))
def test_agrees_with_mergekit(drawn, scale):
    tensors, _ = drawn
    expected = theirs("passthrough", tensors, each={"scale": [scale]})
    torch.testing.assert_close(passthrough(tensors, scale=scale), expected, rtol=1e-6, atol=0)
    assert bits(passthrough(tensors)) == bits(theirs("passthrough", tensors))


def test_two_models_are_one_too_many():
    with pytest.raises(MixlabError, match="merges 1 models; found 2"):
        passthrough([torch.zeros(1)] * 2)
