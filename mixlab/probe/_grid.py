"""How coarsely values are stored: the spacing of the numbers about each value."""

from __future__ import annotations

import torch

# Significant bits, and the exponent (as frexp counts it) below which the spacing stays the same.
_FORMATS = {"BF16": (8, -125), "F16": (11, -13), "F32": (24, -125), "F64": (53, -1021)}
COARSE = ("BF16", "F16")


def effective_format(values: torch.Tensor, dtype: str) -> str:
    """The coarsest format that holds all values exactly; `dtype` as safetensors spells it.

    Many folders hold bfloat16 values in float32 files.
    """
    if dtype not in ("F32", "F64"):
        return dtype
    for name, kind in (("BF16", torch.bfloat16), ("F16", torch.float16)):
        if torch.equal(values.to(kind).to(values.dtype), values):
            return name
    return dtype


def spacing(values: torch.Tensor, form: str) -> torch.Tensor:
    """Distance to the next number of the format, for each value.

    Args:
        values: float32 or float64, contiguous; the answer has that dtype.
        form: as `effective_format` gives it.
    """
    bits, lowest = _FORMATS[form]
    # The exponent's bits alone are the largest power of two that is not above the value.
    wide = values.dtype == torch.float64
    whole, mask = (torch.int64, 0x7FF << 52) if wide else (torch.int32, 0xFF << 23)
    power = (values.view(whole) & mask).view(values.dtype)
    return power.mul_(2.0 ** (1 - bits)).clamp_(min=2.0 ** (lowest - bits))
