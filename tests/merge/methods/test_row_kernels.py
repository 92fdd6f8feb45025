"""Fast paths that take some rows at a time, against the formulas."""

import pytest
import torch

from mixlab.merge import Context, get_method
from mixlab.merge.kernels import _by_parts, _by_rows


@pytest.mark.parametrize("shape", [(200, 700), (70_001,), (3, 5, 64), (0, 4), ()])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("arcee_fusion", {}),
        ("nuslerp", {"nuslerp_flatten": False, "weight": [1, 2]}),
        ("nuslerp", {"nuslerp_flatten": False, "nuslerp_row_wise": True}),
        ("model_stock", {"filter_wise": True}),
        ("ram", {"epsilon": 0.05}),
        ("ramplus_tl", {"epsilon": 0.05}),
        ("sce", {}),
        ("sce", {"select_topk": 0.3}),
    ],
)
def test_fast_path_is_the_formula(name, given, shape):
    generator = torch.Generator().manual_seed(0)
    method = get_method(name)
    count = 1 if method.models[1] == 1 else 2
    base = torch.randn(shape, generator=generator)
    tensors = [base + 0.1 * torch.randn(shape, generator=generator) for _ in range(count)]
    settings = method.settings(given, count)
    fast, plain = (
        method.apply(tensors, base, settings, Context(), plain=plain) for plain in (False, True)
    )
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["arcee_fusion", "sce", "ramplus_tl"])
def test_the_length_of_parts_changes_no_bit(name, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    base, x = (torch.randn(90, 1024, generator=generator).bfloat16() for _ in range(2))
    method = get_method(name)
    settings = method.settings({"select_topk": 0.5} if name == "sce" else {}, 1)
    expected = method.apply([x], base, settings, Context())
    monkeypatch.setattr(_by_rows, "PART", 3 * 1024)
    monkeypatch.setattr(_by_parts, "PART", 2 * _by_parts.BLOCK)
    assert torch.equal(method.apply([x], base, settings, Context()), expected)
