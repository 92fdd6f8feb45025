import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mixlab.merge import multislerp
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import models, theirs

WEIGHTS = st.lists(st.floats(0.125, 2, width=16), min_size=3, max_size=3)


@settings(deadline=None, max_examples=60)
@given(models(3), WEIGHTS, st.integers(1, 3), st.booleans(), st.booleans())
def test_agrees_with_mergekit(drawn, weights, count, based, normalize):
    tensors, base, weights = drawn[0][:count], drawn[1], weights[:count]
    base = base if based else None
    vectors = [(x - base if based else x).flatten() for x in tensors]
    total = sum(weights) if normalize else 1
    mean = sum(w / total * v / (v.norm() + 1e-8) for w, v in zip(weights, vectors, strict=True))
    # Where the units cancel, the direction of what is left is all rounding.
    assume(mean.norm() > 1e-2 or count == 1)
    ours = multislerp(tensors, base, weight=weights, normalize_weights=normalize)
    expected = theirs(
        "multislerp", tensors, base, each={"weight": weights}, normalize_weights=normalize
    )
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_two_that_cancel_are_averaged_and_three_refused():
    x, y = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert multislerp([x, -3 * x]).tolist() == [-1.0, 0.0]
    with pytest.raises(MixlabError, match="cancel and have no mean direction"):
        multislerp([x, -x, y, -y])
    with pytest.raises(MixlabError, match="sum to 0"):
        multislerp([x, y], weight=[1, -1])


def test_two_models_meet_on_the_arc():
    x, y = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 4.0])
    assert multislerp([x, y]).tolist() == pytest.approx([3 * 0.5**0.5] * 2)
