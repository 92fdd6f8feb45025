import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, tsv
from mixlab.spec import MixlabError


def draw(count: int, seed: int, *shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for _ in range(count)]


def by_numpy(tensors, base, alpha, kept):
    parts = [np.linalg.svd(x.numpy() - base.numpy(), full_matrices=False) for x in tensors]
    u = np.hstack([p[0][:, :kept] for p in parts])
    s = np.concatenate([p[1][:kept] for p in parts])
    v = np.hstack([p[2][:kept].T for p in parts])

    def whiten(x):
        # The symmetric inverse root is another way to the orthogonal factor of x.
        values, vectors = np.linalg.eigh(x.T @ x)
        return x @ (vectors / np.sqrt(values)) @ vectors.T

    return base.numpy() + alpha * whiten(u) @ np.diag(s) @ whiten(v).T


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 99), st.sampled_from([(6, 6), (12, 7), (6, 9)]), st.sampled_from([2, 3]))
def test_against_numpy_with_another_orthogonalisation(seed, shape, count):
    base, *tensors = draw(count + 1, seed, *shape)
    theta = tsv(tensors, base, alpha=0.7)
    exact = by_numpy(tensors, base, 0.7, min(shape) // count)
    np.testing.assert_allclose(theta.numpy(), exact, atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 99), st.floats(-2, 2))
def test_one_task_of_full_rank_is_a_plain_step(seed, alpha):
    base, tuned = draw(2, seed, 5, 8)
    theta = tsv([tuned], base, alpha=alpha)
    torch.testing.assert_close(theta, base + alpha * (tuned - base))
    torch.testing.assert_close(tsv([tuned], base, alpha=alpha, rank_share=1), theta)


@pytest.mark.parametrize(("share", "rank"), [(0.5, 5), (0.29, 2), (0.3, 3), (0.0, 1), (1.0, 10)])
def test_the_share_is_counted_in_ranks(share, rank):
    base, tuned = draw(2, 0, 10, 12)
    theta = tsv([tuned], base, rank_share=share)
    assert torch.linalg.matrix_rank(theta - base) == rank
    s = torch.linalg.svdvals(tuned - base)[:rank]
    torch.testing.assert_close(torch.linalg.svdvals(theta - base)[:rank], s)


def test_tasks_that_do_not_meet_are_summed():
    base = torch.zeros(4, 4)
    x, y = torch.zeros(4, 4), torch.zeros(4, 4)
    x[0, 1], x[1, 0] = 3.0, 2.0
    y[2, 2], y[3, 3] = 5.0, 1.0
    torch.testing.assert_close(tsv([x, y], base), x + y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_tasks_merge_to_one_of_them(dtype):
    # Truncated to its two strongest ranks of four.
    base, x = (t.to(dtype) for t in draw(2, 3, 4, 6))
    expected = tsv([x], base, rank_share=0.5)
    torch.testing.assert_close(tsv([x, x.clone()], base), expected, rtol=1e-4, atol=1e-5)


def test_a_task_that_did_not_move_or_moved_in_one_direction_does_not_bend_the_other():
    base, x = draw(2, 4, 6, 6)
    alone = tsv([x], base, rank_share=0.5)
    torch.testing.assert_close(tsv([x, base.clone()], base), alone)
    # The second task lies in what the first leaves out, so that nothing is shared.
    u, _, vt = torch.linalg.svd(x - base)
    second = 0.5 * torch.outer(u[:, 5], vt[5])
    torch.testing.assert_close(tsv([x, base + second], base), alone + second)


def test_vectors_are_averaged_and_alpha_0_is_the_base():
    base = torch.tensor([1.0, -0.0])
    theta = tsv([torch.tensor([3.0, 1.0]), torch.tensor([1.0, 3.0])], base, alpha=0.5)
    assert theta.tolist() == [1.5, 1.0]
    base, x, y = draw(3, 1, 4, 4)
    assert torch.equal(tsv([x, y], base, alpha=0), base)


def test_more_tasks_than_ranks_keep_one_each():
    base, *tensors = draw(5, 2, 3, 6)
    theta = tsv(tensors, base)
    assert bool(theta.isfinite().all())
    assert not torch.equal(theta, base)


def test_values_that_are_not_finite_are_named():
    bad = torch.eye(3)
    bad[0, 0] = float("nan")
    with pytest.raises(MixlabError, match=r"^a\.weight: no singular value decomposition"):
        tsv([bad], torch.zeros(3, 3), context=Context("a.weight"))
