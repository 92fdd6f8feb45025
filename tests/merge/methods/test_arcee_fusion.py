import torch
from hypothesis import given, settings

from mixlab.merge import arcee_fusion
from mixlab.merge.methods._order import order_statistics
from tests.merge.methods.oracle import models, theirs


@settings(deadline=None, max_examples=60)
@given(models(1))
def test_agrees_with_mergekit(drawn):
    (tuned,), base = drawn
    expected = theirs("arcee_fusion", [tuned], base)
    ours = arcee_fusion([tuned], base)
    # base + (x - base) in mergekit is x to rounding; here it is x.
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_each_element_is_of_one_model_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(64, 32, generator=generator)
    tuned = base + torch.randn(64, 32, generator=generator) ** 3
    theta = arcee_fusion([tuned], base)
    taken = theta == tuned
    assert bool((taken | (theta == base)).all())
    assert 0.02 < float(taken.float().mean()) < 0.25


def test_large_tensors_differ_from_mergekit_only_near_the_threshold():
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(1100, 1000, generator=generator)
    tuned = base + torch.randn(1100, 1000, generator=generator)
    ours, expected = arcee_fusion([tuned], base), theirs("arcee_fusion", [tuned], base)
    differ = (ours - expected).abs() > 1e-4
    assert float(differ.float().mean()) < 1e-3
    assert torch.equal(ours, arcee_fusion([tuned], base))


def test_order_statistics_are_those_of_a_sort():
    values = torch.randn(1001, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    ranks = [0, 0, 17, 500, 750, 1000]
    assert order_statistics(values, ranks) == values.sort().values[ranks].tolist()
