import numpy as np
import pytest
import torch

from mixlab.probe._grid import effective_format, spacing


@pytest.mark.parametrize(
    ("form", "dtype"), [("F32", np.float32), ("F16", np.float16), ("F64", np.float64)]
)
def test_spacing_is_numpys(form: str, dtype: type) -> None:
    values = np.random.default_rng(0).standard_normal(2000) * 10.0 ** np.linspace(-9, 3, 2000)
    values = np.append(values.astype(dtype), np.array([0, 1, -1, 2, 0.5], dtype))
    found = spacing(torch.from_numpy(values.astype(np.float64)), form)
    # Of a power of two, numpy gives a negative one's spacing toward zero.
    assert np.array_equal(found.numpy(), np.spacing(np.abs(values)).astype(np.float64))


def test_spacing_of_bfloat16_is_the_next_number() -> None:
    values = torch.randn(2000).abs().to(torch.bfloat16)
    after = (values.view(torch.int16) + 1).view(torch.bfloat16)
    assert torch.equal(spacing(values.float(), "BF16"), after.float() - values.float())


def test_coarse_values_in_a_wide_file_are_known() -> None:
    values = torch.randn(1000)
    assert effective_format(values, "F32") == "F32"
    assert effective_format(values.to(torch.bfloat16).float(), "F32") == "BF16"
    assert effective_format(values.half().float(), "F32") == "F16"
    assert effective_format(values.half().float(), "F16") == "F16"
