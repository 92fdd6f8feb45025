import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import linear, star
from mixlab.spec import MixlabError


def draw(count: int, seed: int, *shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for _ in range(count)]


def test_by_hand():
    # Singular values 4, 3, 2, 1: four tenths are 4, half is 5 and takes two of them.
    change = torch.diag(torch.tensor([3.0, 1.0, 4.0, 2.0]))
    base = torch.zeros(4, 4)
    assert star([change], base, eta=0.4).diagonal().tolist() == [0, 0, 10, 0]
    theta = star([change], base, eta=0.5).diagonal()
    torch.testing.assert_close(theta, torch.tensor([30 / 7, 0, 40 / 7, 0]))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 99), st.floats(0, 1), st.sampled_from([(6, 6), (9, 4), (3, 8)]))
def test_fewest_ranks_that_hold_the_share_and_the_norm_restored(seed, eta, shape):
    base, tuned = draw(2, seed, *shape)
    before = np.linalg.svd((tuned - base).numpy(), compute_uv=False)
    after = np.linalg.svd((star([tuned], base, eta=eta) - base).numpy(), compute_uv=False)
    np.testing.assert_allclose(after.sum(), before.sum())
    rank = int((after > 1e-9).sum())
    assert before[:rank].sum() >= eta * before.sum() * (1 - 1e-9)
    assert rank == 1 or before[: rank - 1].sum() < eta * before.sum() * (1 + 1e-9)
    np.testing.assert_allclose(after[:rank], before[:rank] * before.sum() / before[:rank].sum())


def test_the_whole_spectrum_is_a_plain_average():
    base, x, y = draw(3, 0, 5, 7)
    expected = linear([x, y], weight=[3, 1])
    torch.testing.assert_close(star([x, y], base, eta=1, weight=[3, 1]), expected)
    summed = base + 3 * (x - base) + (y - base)
    theta = star([x, y], base, eta=1, weight=[3, 1], normalize=False)
    torch.testing.assert_close(theta, summed)


def test_each_task_is_truncated_before_the_average():
    base, x, y = draw(3, 1, 6, 6)
    both = (star([x], base, eta=0.3) + star([y], base, eta=0.3)) / 2
    torch.testing.assert_close(star([x, y], base, eta=0.3), both)


def test_a_vector_and_a_weight_that_did_not_move_stay_whole():
    theta = star([torch.tensor([3.0, 1.0])], torch.tensor([1.0, 1.0]), eta=0.1)
    assert theta.tolist() == [3.0, 1.0]
    same = torch.full((3, 3), -0.0)
    assert bool(star([same.clone()], same).signbit().all())


def test_weights_that_cancel_are_refused():
    x = torch.eye(2)
    with pytest.raises(MixlabError, match=r"star: .* sum to 0"):
        star([x, x], torch.zeros(2, 2), weight=[1, -1])
