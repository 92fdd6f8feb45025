import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mixlab.merge import karcher
from tests.merge.methods.oracle import models, theirs


@settings(deadline=None, max_examples=60)
@given(models(3), st.integers(1, 3), st.integers(0, 10))
def test_agrees_with_mergekit(drawn, count, steps):
    tensors = drawn[0][:count]
    # Nearly antipodal pairs have no stable mean.
    flat = [x.flatten() / x.norm() for x in tensors if x.norm() > 0]
    assume(all(a @ b > -0.9 for a in flat for b in flat))
    expected = theirs("karcher", tensors, max_iter=steps)
    scale = float(sum(x.norm() for x in tensors))
    # mergekit's iteration rounds each angle to float32, which near 0 is good to 4e-4.
    torch.testing.assert_close(
        karcher(tensors, max_iter=steps), expected, rtol=1e-4, atol=2e-4 * max(scale, 1)
    )


def test_the_mean_of_three_axes_is_the_diagonal_at_the_mean_norm():
    axes = list(torch.diag(torch.tensor([1.0, 2.0, 3.0])))
    assert karcher(axes).tolist() == pytest.approx([2 / 3**0.5] * 3)


def test_the_mean_has_least_squared_arcs():
    generator = torch.Generator().manual_seed(0)
    units = [
        torch.nn.functional.normalize(torch.rand(4, generator=generator), dim=0) for _ in "abc"
    ]
    mean = karcher(units, max_iter=50, tol=1e-7)

    def cost(point: torch.Tensor) -> float:
        point = point / point.norm()
        return sum(float(torch.acos(point.double() @ u.double()) ** 2) for u in units)

    for _ in range(20):
        assert cost(mean) <= cost(mean + 0.05 * torch.randn(4, generator=generator)) + 1e-6


def test_tensors_without_direction():
    zero, x = torch.zeros(3), torch.tensor([3.0, 0.0, 4.0])
    assert karcher([zero, x]).tolist() == pytest.approx([1.5, 0.0, 2.0])
    assert karcher([zero, torch.full((3,), 1e-9)]).tolist() == [0.0, 0.0, 0.0]
