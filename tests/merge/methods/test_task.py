"""The task-vector family against mergekit, and against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method
from mixlab.merge._random import tickets_like, winning
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import bits, models, theirs

ELECTED = ["ties", "dare_ties", "della", "breadcrumbs_ties"]
SPARSE = [*ELECTED, "dare_linear", "della_linear", "breadcrumbs"]
FAMILY = [*SPARSE, "task_arithmetic"]
RANDOM = ["dare_linear", "dare_ties", "della", "della_linear"]
DENSITIES = st.sampled_from([0.0, 0.2, 0.5, 0.55, 0.8, 1.0])
WEIGHTS = st.sampled_from([1.0, 0.5, 0.3, 2.0, -0.4])
CONTEXT = Context(name="layer", models=("a", "b", "c"), seed=5)


def ours(
    name: str, tensors: list[torch.Tensor], base: torch.Tensor, /, plain: bool = False, **given: Any
) -> torch.Tensor:
    method = get_method(name)
    resolved = method.settings(given, len(tensors))
    return method.apply(tensors, base, resolved, CONTEXT, plain=plain)


@contextmanager
def masks_of_ours(shape: torch.Size, drawn: list[int]) -> Iterator[None]:
    """mergekit's draws answered with our numbers, for the models that it draws for, in order."""
    left = iter(drawn)

    def bernoulli(odds: torch.Tensor) -> torch.Tensor:
        drawn = tickets_like(torch.empty(shape), CONTEXT, next(left)).reshape(odds.shape)
        return (drawn < torch.from_numpy(winning(odds.numpy()))).to(odds.dtype)

    with mock.patch.object(torch, "bernoulli", bernoulli):
        yield


def settled(name: str, tensors: list[torch.Tensor], base: torch.Tensor, each: dict) -> torch.Tensor:
    """Where no election hangs on rounding: every vote is cast, one is as large as the others."""
    if name not in ELECTED or len(tensors) < 3:
        return torch.ones_like(base, dtype=torch.bool)
    votes = torch.stack([(t - base) * w for t, w in zip(tensors, each["weight"], strict=True)])
    signs = votes.sign()
    return (signs == signs[0]).all(0)


@settings(deadline=None, max_examples=250)
@given(st.data(), st.sampled_from(FAMILY), st.integers(1, 3))
def test_mergekit_says_the_same(data: st.DataObject, name: str, count: int) -> None:
    tensors, base = data.draw(models(count))
    method = get_method(name)
    each = {"weight": data.draw(st.tuples(*[WEIGHTS] * count))}
    shared: dict[str, Any] = {"lambda": data.draw(st.sampled_from([1.0, 0.3, -2.0]))}
    shared["normalize"] = data.draw(st.booleans())
    if name not in ELECTED and abs(sum(each["weight"])) < 0.05:
        shared["normalize"] = False
    drawn: list[int] = []
    if name != "task_arithmetic":
        shared["rescale"] = data.draw(st.booleans())
        each["density"] = data.draw(st.tuples(*[DENSITIES] * count))
        drawn = [i for i, share in enumerate(each["density"]) if share < 1]
    if "gamma" in method.each.model_fields:
        each["gamma"] = data.draw(st.tuples(*[st.sampled_from([0.01, 0.3, 0.9])] * count))
    if "epsilon" in method.each.model_fields:
        each["epsilon"] = (0.15,) * count
        drawn = [i for i in drawn if each["density"][i] > 0]
        if (base.dim() > 1 and base.shape[1] == 1) or base.numel() == 1:
            # 0 / 0 in mergekit: a row of one element has no rank.
            each["density"] = tuple(float(share >= 0.5) for share in each["density"])
            drawn = []
    mine = ours(name, tensors, base, **each, **shared)
    with masks_of_ours(base.shape, drawn):
        other = theirs(name, tensors, base, each=each, **shared)
    sure = settled(name, tensors, base, each)
    torch.testing.assert_close(mine[sure], other[sure], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_model_that_is_the_base_returns_it_bit_for_bit(name: str, dtype: torch.dtype) -> None:
    base = torch.randn(40, 33, generator=torch.Generator().manual_seed(0)).to(dtype)
    base[::3] = -0.0
    given = {"weight": [0.3, -1.7], "lambda": -0.7}
    if name != "task_arithmetic":
        given["density"] = 0.5
    for plain in (False, True):
        assert bits(ours(name, [base.clone(), base.clone()], base, plain=plain, **given)) == bits(
            base
        )


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("plain", [False, True])
def test_density_0_keeps_the_base_and_density_1_all(name: str, plain: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    base, tuned = (torch.randn(30, 7, generator=generator) for _ in range(2))
    for rescale in [False, True, "inverse"] if name in RANDOM else [False, True]:
        none = ours(name, [tuned], base, density=0, rescale=rescale, plain=plain)
        assert bits(none) == bits(base)
        every = ours(name, [tuned], base, density=1, rescale=rescale, plain=plain)
        torch.testing.assert_close(every, tuned, rtol=1e-6, atol=1e-6)


def test_ties_worked_by_hand() -> None:
    base = torch.zeros(4)
    one, two = torch.tensor([4.0, -3.0, 1.0, 0.5]), torch.tensor([-2.0, -5.0, 3.0, 0.1])
    # Half is kept: (4, -3, 0, 0) and (0, -5, 3, 0); averages are over the models that agree.
    assert ours("ties", [one, two], base, density=0.5).tolist() == [4, -4, 3, 0]
    # All is kept; + wins the first element (4 - 2), and an even vote would elect + too.
    assert ours("ties", [one, two], base).tolist()[:2] == [4, -4]
    assert ours("ties", [one, -one], base).tolist() == [4, 3, 1, 0.5]


def test_a_single_element_is_kept_by_ties_and_not_by_breadcrumbs() -> None:
    base, tuned = torch.zeros(1), torch.tensor([3.0])
    for name, expected in [("ties", 3), ("breadcrumbs", 0)]:
        assert ours(name, [tuned], base, density=0.1).item() == expected
        assert theirs(name, [tuned], base, each={"weight": [1.0]}, density=0.1).item() == expected


def test_a_row_of_one_element_is_kept_at_its_density() -> None:
    base, tuned = torch.zeros(4000, 1), torch.ones(4000, 1)
    mine = ours("della", [tuned], base, density=0.3, rescale=False)
    assert mine.mean().item() == pytest.approx(0.3, abs=0.04)


def test_election_before_or_after_weighting() -> None:
    base, tensors = torch.zeros(1), [torch.tensor([3.0]), torch.tensor([-2.0])]
    # Weighted votes are 3 and -8: - is elected. Unweighted ones are 3 and -2: + is.
    assert ours("ties", tensors, base, weight=[1, 4]).item() == -2
    assert ours("ties", tensors, base, weight=[1, 4], elect="unweighted").item() == 3
    more = [*tensors, torch.tensor([-0.5])]
    assert ours("ties", more, base).item() == 3
    assert ours("ties", more, base, consensus="count").item() == -1.25


def test_equal_magnitudes_at_the_threshold_keep_the_earlier_ones() -> None:
    base, tuned = torch.zeros(6), torch.tensor([1.0, -2.0, 1.0, 1.0, -1.0, 0.0])
    for plain in (False, True):
        mine = ours("ties", [tuned], base, density=0.5, plain=plain)
        assert mine.tolist() == [1, -2, 1, 0, 0, 0]
        # One outlier goes (the 2), then two are kept.
        mine = ours("breadcrumbs", [tuned], base, density=0.4, gamma=0.2, plain=plain)
        assert mine.tolist() == [1, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("name", ["ties", "breadcrumbs"])
def test_where_magnitudes_are_equal_mergekit_keeps_as_many(name: str) -> None:
    tuned = torch.randint(-2, 3, (50, 7), generator=torch.Generator().manual_seed(3)).float()
    base = torch.zeros_like(tuned)
    mine = ours(name, [tuned], base, density=0.3)
    other = theirs(name, [tuned], base, each={"weight": [1.0]}, density=0.3)
    assert mine.abs().flatten().sort().values.tolist() == (
        other.abs().flatten().sort().values.tolist()
    )


@pytest.mark.parametrize("name", FAMILY)
def test_permuting_models_with_their_keys_changes_rounding_only(name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    base, *tensors = (torch.randn(20, 9, generator=generator) for _ in range(4))
    given = {"weight": [1.0, 0.3, -0.5]}
    if name != "task_arithmetic":
        given["density"] = [0.5, 0.3, 0.8]
    method, order = get_method(name), [2, 0, 1]
    moved = {key: [values[i] for i in order] for key, values in given.items()}
    there = method.apply(tensors, base, method.settings(given, 3), CONTEXT)
    context = Context("layer", tuple(CONTEXT.models[i] for i in order), 5)
    back = method.apply([tensors[i] for i in order], base, method.settings(moved, 3), context)
    torch.testing.assert_close(there, back, rtol=1e-5, atol=1e-5)


def test_half_precision_is_subtracted_in_float32() -> None:
    # 1 - 2**-9 rounds to 1 in bfloat16; mergekit, which subtracts there, would lose the change.
    base, tuned = torch.tensor([1.0]).bfloat16(), torch.tensor([2.0**-9]).bfloat16()
    mine = ours("task_arithmetic", [tuned.clone()], base, weight=256.0, plain=False)
    assert mine.item() == torch.tensor(1 - 256 * (1 - 2.0**-9)).bfloat16().item()


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("ties", {"density": 1.2}, "density"),
        ("dare_linear", {"density": -0.1}, "density"),
        ("breadcrumbs", {"gamma": 2}, "gamma"),
        ("della", {"density": 0.9, "epsilon": 0.2}, "set epsilon below 0.1"),
        ("della_linear", {"density": 0.1}, "inside"),
        ("task_arithmetic", {"weight": [1, -1], "normalize": True}, "sum to 0"),
        ("dare_linear", {"weight": [1, -1], "normalize": True}, "sum to 0"),
        ("task_arithmetic", {"density": 0.5}, "unknown setting 'density'"),
        ("ties", {"rescale": "l3"}, "rescale"),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_bad_settings_are_told(name: str, given: dict, message: str, plain: bool) -> None:
    x = torch.ones(4, 4)
    with pytest.raises(MixlabError, match=message):
        ours(name, [x + 1, x + 2], x, plain=plain, **given)
