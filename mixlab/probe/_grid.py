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
    """Distance to the next number of the format, for each value; of the values' dtype."""
    bits, lowest = _FORMATS[form]
    exponent = torch.frexp(values).exponent.clamp_(min=lowest).masked_fill_(values == 0, lowest)
    exponent -= bits
    return torch.ldexp(torch.ones_like(values), exponent)
