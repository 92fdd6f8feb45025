import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_checkpoints import write_model

from mixlab.checkpoint import read_state
from mixlab.merge import Context, fisher, linear, merge_checkpoints, merge_state_dicts
from mixlab.spec import MixlabError


def draw(count: int, seed: int, *shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator) for _ in range(count)]


def test_each_element_has_a_weight_of_its_own():
    x, y = torch.tensor([8.0, 8.0, 8.0, 8.0]), torch.tensor([0.0, 0.0, 0.0, 0.0])
    f, g = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([3.0, 0.0, 2.0, 0.0])
    assert fisher([x, y], importance=[f, g]).tolist() == [2.0, 8.0, 0.0, 4.0]
    # w F: 3 against 3, then one side alone, then the weights alone.
    assert fisher([x, y], importance=[f, g], weight=[3, 1]).tolist() == [4.0, 8.0, 0.0, 6.0]


def test_the_mode_of_a_product_of_gaussians():
    # Fisher merging maximises sum_i w_i log N(theta; x_i, 1 / F_i).
    (x, y), (f, g) = draw(2, 0, 5), [t.abs() for t in draw(2, 1, 5)]
    theta = fisher([x, y], importance=[f, g], weight=[0.3, 0.7]).double().requires_grad_()
    fit = 0.3 * f.double() * (theta - x) ** 2 + 0.7 * g.double() * (theta - y) ** 2
    fit.sum().backward()
    assert theta.grad is not None
    assert theta.grad.abs().max() < 1e-6


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(0, 99), st.floats(-35, 30))
def test_equal_importance_is_the_plain_weighted_average_at_any_scale(count, seed, power):
    tensors, same = draw(count, seed, 3, 4), draw(1, seed + 1, 3, 4)[0].abs() * 10**power
    weight = [0.25 + index for index in range(count)]
    theta = fisher(tensors, importance=[same] * count, weight=weight)
    torch.testing.assert_close(theta, linear(tensors, weight=weight), rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 99), st.floats(-18, 15))
def test_against_numpy_in_float64(seed, power):
    tensors = draw(3, seed, 4, 2)
    scaled = [10.0**power * t**2 for t in draw(3, seed + 1, 4, 2)]
    top = sum(f.double().numpy() * x.double().numpy() for f, x in zip(scaled, tensors, strict=True))
    exact = top / sum(f.double().numpy() for f in scaled)
    found = fisher(tensors, importance=scaled).numpy()
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_a_model_with_importance_but_no_weight_does_not_count():
    x, y = torch.tensor([1.0]), torch.tensor([5.0])
    f, g = torch.tensor([2.0]), torch.tensor([0.0])
    assert fisher([x, y], importance=[f, g], weight=[0, 1]).tolist() == [5.0]


@pytest.mark.parametrize("value", [-1e-9, float("nan"), float("inf")])
def test_refuses_importance_that_is_none(value):
    x = torch.zeros(3)
    bad = torch.tensor([1.0, value, 1.0])
    with pytest.raises(MixlabError, match=r"a\.weight: fisher: 1 of 3 importances of model 1"):
        fisher([x, x], importance=[x, bad], context=Context("a.weight"))


def test_importance_comes_from_a_folder_beside_each_model(tmp_path):
    def positive(state: dict[str, torch.Tensor]) -> None:
        for tensor in state.values():
            tensor.square_()

    folders = [write_model(tmp_path / f"model{k}", seed=k) for k in (0, 1)]
    diagonals = [write_model(tmp_path / f"f{k}", seed=k, change=positive) for k in (2, 3)]
    models = [
        {"model": folder, "importance": diagonal, "weight": weight}
        for folder, diagonal, weight in zip(folders, diagonals, (1, 2), strict=True)
    ]
    merge_checkpoints({"method": "fisher", "models": models}, tmp_path / "out")
    out = read_state(tmp_path / "out")
    (x, y), (f, g) = map(read_state, folders), map(read_state, diagonals)
    for name, tensor in out.items():
        expected = fisher([x[name], y[name]], importance=[f[name], g[name]], weight=[1, 2])
        assert torch.equal(tensor, expected), name
    found = merge_state_dicts("fisher", [x, y], extras=[f, g], settings={"weight": [1, 2]})
    assert all(torch.equal(found[name], out[name]) for name in out)


def test_refuses_weights_and_importance_that_do_not_fit():
    x = torch.zeros(3)
    with pytest.raises(MixlabError, match="all weights are 0"):
        fisher([x, x], importance=[x, x], weight=0)
    with pytest.raises(MixlabError, match=r"2 tensors of importance for 2 models; found 1"):
        fisher([x, x], importance=[x])
    with pytest.raises(MixlabError, match=r"shapes differ: \[3\] and \[4\]"):
        fisher([x, x], importance=[x, torch.zeros(4)])
