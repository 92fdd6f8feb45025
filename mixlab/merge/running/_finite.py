"""NaN and infinity, looked for in the bits: two passes of integers, without a copy."""

from __future__ import annotations

import numpy as np
import torch

from mixlab.checkpoint import torch_dtype

# Per dtype, the integers of its width and the smallest bit pattern without sign that is not finite.
_LIMITS: dict[str, tuple[type[np.signedinteger], type[np.unsignedinteger], int]] = {
    "F64": (np.int64, np.uint64, 0x7FF0_0000_0000_0000),
    "F32": (np.int32, np.uint32, 0x7F80_0000),
    "F16": (np.int16, np.uint16, 0x7C00),
    "BF16": (np.int16, np.uint16, 0x7F80),
    "F8_E5M2": (np.int8, np.uint8, 0x7C),
    "F8_E4M3": (np.int8, np.uint8, 0x7F),
}
_FLOATS = {*_LIMITS, "C64", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"}


def is_floating(spelling: str) -> bool:
    """Whether a dtype, as safetensors spells it, can hold NaN (types below a byte cannot)."""
    return spelling in _FLOATS


def all_finite(raw: np.ndarray, spelling: str) -> bool:
    """Whether all values are finite; integers are.

    Args:
        raw: uint8, contiguous and aligned: the bytes of the values.
        spelling: their dtype.
    """
    if not raw.size or spelling not in _FLOATS:
        return True
    if spelling == "C64":
        spelling = "F32"
    if spelling not in _LIMITS:
        return sum(count_nonfinite(raw, spelling)) == 0
    signed, unsigned, limit = _LIMITS[spelling]
    # Positive ones are the largest as signed integers, negative ones as unsigned integers.
    if raw.view(signed).max() >= limit:
        return False
    return bool(raw.view(unsigned).max() < limit + (1 << (8 * unsigned().itemsize - 1)))


def count_nonfinite(raw: np.ndarray, spelling: str) -> tuple[int, int]:
    """Numbers of NaN and of infinite values among `raw`, see `all_finite`."""
    if spelling not in _FLOATS:
        return 0, 0
    values = torch.from_numpy(raw).view(torch_dtype(spelling))
    if spelling.startswith("F8"):
        values = values.float()
    return int(values.isnan().sum()), int(values.isinf().sum())
