"""The sphere's fast paths, which work on inner products, against the formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import Context, get_method
from mixlab.merge.kernels._gram import BLOCK, gram, write_combination
from mixlab.spec import MixlabError
from tests.merge.methods.oracle import bits, models

NAMES = st.sampled_from(["nuslerp", "multislerp", "karcher", "model_stock"])


@settings(deadline=None, max_examples=120)
@given(NAMES, models(3), st.integers(1, 3), st.booleans())
def test_fast_paths_are_the_formulas(name, drawn, count, based):
    method = get_method(name)
    low, high = method.models
    tensors = drawn[0][: min(max(count, low), high or 3)]
    base = drawn[1] if method.base == "required" or (method.base == "optional" and based) else None
    given = method.settings({}, len(tensors))
    results = []
    for plain in (False, True):
        try:
            results.append(method.apply(tensors, base, given, Context(), plain=plain))
        except MixlabError as refusal:
            results.append(str(refusal))
    fast, plain = results
    if isinstance(plain, str):
        assert fast == plain
        return
    # Where vectors nearly cancel, both are rounding times a large factor: only size 1 gets there.
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from([1, BLOCK, 3 * BLOCK + 5, 100_000]), st.booleans())
def test_inner_products_are_those_of_float64(size, based):
    generator = torch.Generator().manual_seed(size)
    tensors = [torch.randn(size, generator=generator).bfloat16() for _ in range(3)]
    base = torch.randn(size, generator=generator).bfloat16() if based else None
    vectors = np.stack([(x.float() - (base.float() if based else 0)).numpy() for x in tensors])
    exact = vectors.astype(float) @ vectors.T.astype(float)
    scale = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    assert np.abs(gram(tensors, base) - exact).max() <= 2e-7 * scale.max()


def test_squares_beyond_float32_are_summed_in_float64():
    x = torch.full((5000,), 1e25)
    assert gram([x])[0, 0] == pytest.approx(5000 * float(x[0]) ** 2)


def test_a_sum_from_a_base_moves_nothing_where_nothing_moved():
    base = torch.randn(100, generator=torch.Generator().manual_seed(0)).bfloat16()
    out = torch.empty_like(base)
    write_combination([base, base.clone()], base, [0.3, 0.9], out)
    assert bits(out) == bits(base)
