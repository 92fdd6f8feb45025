"""Random numbers belong to an element, however the tensor is cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from mixlab.merge import Context
from mixlab.merge._random import random_key, tickets, uniforms, winning

CONTEXT = Context(name="model.layers.0.mlp.up_proj.weight", models=("tuned", "other"), seed=7)


def whole(context: Context = CONTEXT, index: int = 0, count: int = 5000) -> torch.Tensor:
    return uniforms(context, index, 0, torch.empty(count))


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_any_part_has_the_numbers_of_the_whole(one: int, other: int) -> None:
    start, stop = min(one, other), max(one, other)
    part = uniforms(CONTEXT, 0, start, torch.empty(stop - start))
    assert torch.equal(part, whole()[start:stop])


def test_a_number_is_the_upper_24_bits_of_half_a_philox_word() -> None:
    # numpy promises these words for ever, but not what Generator makes of them.
    words = np.random.Philox(key=random_key(CONTEXT, 0)).random_raw(2500)
    halves = np.stack([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)], axis=1).ravel()
    expected = (halves >> np.uint64(8)).astype(np.float64) / 2**24
    assert np.array_equal(whole().double().numpy(), expected)


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_tickets_are_the_quarters_of_philox_words_in_any_part(one: int, other: int) -> None:
    start, stop = min(one, other), max(one, other)
    words = np.random.Philox(key=random_key(CONTEXT, 0)).random_raw(1250)
    shifts = np.arange(0, 64, 16, dtype=np.uint64)
    quarters = (words[:, None] >> shifts & np.uint64(0xFFFF)).ravel()
    assert np.array_equal(tickets(CONTEXT, 0, start, stop - start), quarters[start:stop])


@given(st.floats(0, 1))
def test_winning_tickets_hold_the_odds(odds: float) -> None:
    count = int(winning(odds))
    assert (count == 0) == (odds == 0)
    assert (count == 2**16) == (odds == 1)
    # Half a ticket from rounding; inside (0, 1) never all and never none.
    assert abs(count - odds * 2**16) <= (0.5 if 2**-16 <= odds <= 1 - 2**-16 else 1)


def test_seed_model_tensor_and_element_far_away_have_their_own_numbers() -> None:
    others = [
        whole(Context(CONTEXT.name, CONTEXT.models, seed=8)),
        whole(Context(CONTEXT.name + "x", CONTEXT.models, seed=7)),
        whole(index=1),
        whole(index=-1),
        uniforms(CONTEXT, 0, 2**40, torch.empty(5000)),
    ]
    streams = torch.stack([whole(), *others]).double()
    assert torch.corrcoef(streams).fill_diagonal_(0).abs().max() < 5 / 5000**0.5
    assert all(not torch.equal(whole(), other) for other in others)


def test_a_model_is_known_by_its_key_and_not_by_its_place() -> None:
    swapped = Context(CONTEXT.name, ("other", "tuned"), seed=7)
    assert torch.equal(whole(), whole(swapped, index=1))


def test_recorded_numbers_stay() -> None:
    # A change here changes every random merge that anyone has recorded.
    assert whole(count=4).mul(2**24).int().tolist() == [15307061, 5162551, 1046590, 15680807]


def test_threads_do_not_meet() -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda index: whole(index=index % 2), range(16)))
    assert all(torch.equal(one, whole(index=at % 2)) for at, one in enumerate(made))
    assert whole().min() >= 0
    assert whole().max() < 1
