import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method, lines, task_arithmetic, wise_ft
from mixlab.spec import MixlabError

BASE, TUNED = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 6.0])


def at(layer: int | None, layers: int = 5) -> Context:
    return Context(layer=layer, layers=layers)


@pytest.mark.parametrize(
    ("layer", "scale"), [(0, 0.25), (1, 0.4375), (2, 0.625), (3, 0.8125), (4, 1.0), (None, 0.25)]
)
def test_one_model_rises_from_alpha_to_itself(layer, scale):
    # By hand: 0.25 + 0.75 * l / 4.
    theta = lines([TUNED], BASE, alpha=0.25, context=at(layer))
    assert theta.tolist() == [1 + scale, 2 + 4 * scale]


def test_beta_is_the_gain_up_to_the_last_block():
    scales = [
        float(lines([TUNED], BASE, alpha=0.5, beta=-0.5, context=at(layer, 3))[0]) - 1
        for layer in range(3)
    ]
    assert scales == [0.5, 0.25, 0.0]


def test_a_single_block_takes_alpha():
    theta = lines([TUNED], BASE, alpha=0.5, beta=9, context=at(0, 1))
    assert theta.tolist() == [1.5, 4.0]


def test_a_flat_line_is_task_arithmetic_and_wise_ft():
    other = torch.tensor([0.0, -3.0])
    theta = lines([TUNED, other], BASE, alpha=0.5, beta=0, weight=[1, 0.5], context=at(3))
    expected = task_arithmetic([TUNED, other], BASE, weight=[1, 0.5], lambda_=0.5)
    torch.testing.assert_close(theta, expected)
    theta = lines([TUNED], BASE, alpha=0.5, beta=0, context=at(3))
    torch.testing.assert_close(theta, wise_ft([TUNED], BASE, alpha=0.5))


def test_alpha_0_keeps_first_block_and_what_is_outside_bit_for_bit():
    base = torch.tensor([-0.0, 1e-30])
    for context in (at(0), at(None)):
        theta = lines([torch.tensor([3.0, 1.0])], base, alpha=0, context=context)
        assert theta.view(torch.int32).tolist() == base.view(torch.int32).tolist()


def test_the_last_block_of_one_model_is_its_own_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    base, tuned = torch.randn(2, 1000, generator=generator)
    tuned[0], tuned[1] = -0.0, 1e-20
    theta = lines([tuned], base, alpha=0.3, context=at(4))
    assert theta.view(torch.int32).tolist() == tuned.view(torch.int32).tolist()


def test_several_models_need_beta():
    with pytest.raises(MixlabError, match="beta is missing for 2 models"):
        lines([TUNED, TUNED], BASE, alpha=0.5)


@settings(deadline=None, max_examples=40)
@given(
    st.floats(-0.5, 1.5),
    st.none() | st.floats(-1, 1),
    st.integers(0, 4),
    st.integers(1, 3),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_fast_path_is_the_formula(alpha, beta, layer, count, dtype):
    generator = torch.Generator().manual_seed(layer)
    base, *tensors = (torch.randn(500, generator=generator).to(dtype) for _ in range(count + 1))
    for tensor in tensors:
        tensor[:2] = base[:2] = torch.tensor([-0.0, 3.0])
    method = get_method("lines")
    beta = 0.5 if beta is None and count > 1 else beta
    given = method.settings({"alpha": alpha, "beta": beta, "weight": 0.75}, count)
    fast, plain = (method.apply(tensors, base, given, at(layer), plain=p) for p in (False, True))
    close = (
        {"rtol": 2**-7, "atol": 2e-3} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 2e-6}
    )
    torch.testing.assert_close(fast, plain, **close)
    assert bool(fast[0].signbit())
