"""One cut over all tensors of a model."""

import pytest
import torch

from mixlab.merge import model_threshold, ties
from mixlab.spec import MixlabError


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_threshold_is_that_of_sorting_everything(dtype):
    generator = torch.Generator().manual_seed(0)
    shapes = [(30, 40), (7,), (300, 11)]
    pairs = [
        tuple((scale * torch.randn(shape, generator=generator)).to(dtype) for _ in range(2))
        for shape, scale in zip(shapes, [1, 10, 0.1], strict=True)
    ]
    deltas = [(tensor.float() - base.float()).flatten() for tensor, base in pairs]
    sizes = torch.cat(deltas).abs().sort(descending=True).values
    assert model_threshold(pairs, 1.0) == 0
    for density in (1e-9, 0.2, 0.5, 0.999):
        threshold = model_threshold(pairs, density)
        assert threshold == sizes[max(1, int(density * len(sizes))) - 1]
        kept = 0
        for (tensor, base), delta in zip(pairs, deltas, strict=True):
            theta = ties([tensor.float()], base.float(), threshold=threshold)
            large = (delta.abs() >= threshold).view(base.shape)
            assert torch.equal(theta[~large], base.float()[~large])
            kept += int(large.sum())
        # Equals of the last one are kept as well.
        assert kept == int((sizes >= threshold).sum())


def test_bad_densities_and_shapes_are_told():
    x = torch.ones(3)
    with pytest.raises(MixlabError, match="no threshold"):
        model_threshold([(x, x)], 0.0)
    with pytest.raises(MixlabError, match="no threshold"):
        model_threshold([], 0.5)
    with pytest.raises(MixlabError, match="shapes differ"):
        model_threshold([(x, x[:1])], 0.5)
