"""The fast paths of the task-vector family are their formulas, bit for bit, however cut."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method
from mixlab.merge.kernels import _parts
from tests.merge.methods.oracle import bits

FAMILY = [
    "task_arithmetic",
    "ties",
    "dare_linear",
    "dare_ties",
    "della",
    "della_linear",
    "breadcrumbs",
    "breadcrumbs_ties",
]
SHAPES = [(), (1,), (9,), (30011,), (37, 411), (9, 1), (5, 3, 7, 20), (1, 9001), (10, 4, 300)]
CONTEXT = Context("layer", ("a", "b", "c"), seed=3)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Parts so small that small tensors have several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_parts, "PART", 1 << 12)
        yield


def draw(shape: tuple[int, ...], count: int, dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
    """The base and `count` models near it; a tenth of the elements does not move."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(shape, generator=generator)
    made = [base]
    for _ in range(count):
        moved = torch.rand(shape, generator=generator) > 0.1
        made.append(base + 0.05 * moved * torch.randn(shape, generator=generator))
    return [tensor.to(dtype) for tensor in made]


def settings_of(name: str, pick: st.DataObject, count: int) -> dict[str, Any]:
    method = get_method(name)

    def one(*values: Any) -> Any:
        return pick.draw(st.sampled_from(values))

    choices = {
        "weight": lambda: [one(1.0, 1.0, 0.7, -0.3, 0.0) for _ in range(count)],
        "density": lambda: [one(0.5, 0.2, 0.77, 0.0, 1.0) for _ in range(count)],
        "threshold": lambda: [one(0.0, 0.0, 0.03) for _ in range(count)],
        "gamma": lambda: [one(0.0, 0.01, 0.4) for _ in range(count)],
        "epsilon": lambda: [one(0.15, 0.05) for _ in range(count)],
        "rescale": lambda: one(False, True, *(["inverse"] if method.random else [])),
        "lambda_": lambda: one(1.0, 0.7, -1.5),
        "normalize": lambda: "elect" in method.shared.model_fields and one(True, False),
        "elect": lambda: one("weighted", "unweighted"),
        "consensus": lambda: one("sum", "count"),
    }
    known = {**method.shared.model_fields, **method.each.model_fields}
    return {key: choices[key]() for key in known}


@settings(deadline=None, max_examples=250)
@given(
    st.data(),
    st.sampled_from(FAMILY),
    st.sampled_from(SHAPES),
    st.integers(1, 3),
    st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    st.integers(0, 99),
)
def test_fast_is_plain_bit_for_bit(data, name, shape, count, dtype, seed):
    base, *tensors = draw(shape, count, dtype, seed)
    method = get_method(name)
    resolved = method.settings(settings_of(name, data, count), count)
    fast = method.apply(tensors, base, resolved, CONTEXT)
    plain = method.apply(tensors, base, resolved, CONTEXT, plain=True)
    assert bits(fast) == bits(plain)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("rescale", [False, True])
def test_neither_parts_nor_threads_change_a_bit(name, rescale, monkeypatch):
    method = get_method(name)
    base, *tensors = draw((119, 521), 2, torch.bfloat16, 0)
    given: dict[str, Any] = {"weight": [0.7, 0.5]}
    if name != "task_arithmetic":
        given |= {"density": [0.4, 0.6], "rescale": rescale}
    resolved = method.settings(given, 2)

    def merged(_: object = None) -> bytes:
        return bits(method.apply(tensors, base, resolved, CONTEXT))

    expected = merged()
    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(merged, range(6))) == {expected}
    for part in (1 << 13, 1 << 17):
        monkeypatch.setattr(_parts, "PART", part)
        assert merged() == expected


def test_task_arithmetic_may_be_cut_anywhere():
    base, tuned = draw((10007,), 1, torch.bfloat16, 0)
    method = get_method("task_arithmetic")
    resolved = method.settings({"weight": 0.3}, 1)
    assert method.kernel is not None
    run, span = method.kernel
    assert span == "element"
    out = torch.empty_like(base)
    for start, stop in [(0, 3), (3, 5001), (5001, 10007)]:
        run([tuned[start:stop]], base[start:stop], out[start:stop], resolved, CONTEXT, start)
    assert bits(out) == bits(method.apply([tuned], base, resolved, CONTEXT))


def test_mixed_dtypes_are_widened_each():
    base, tuned = draw((5000,), 1, torch.float32, 0)
    method = get_method("ties")
    resolved = method.settings({"density": 0.5}, 1)
    args = [tuned.bfloat16()], base, resolved, CONTEXT
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        fast, plain = (method.apply(*args, dtype=dtype, plain=plain) for plain in (False, True))
        assert fast.dtype == dtype
        assert bits(fast) == bits(plain)
