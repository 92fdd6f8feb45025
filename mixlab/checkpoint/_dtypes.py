"""Dtypes as safetensors spells them, and torch's names for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch

# Width in bits, since some types are narrower than a byte (safetensors format, version 0.7). In
# the order of the safetensors library, by which it lays out a file: widest first.
BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
_TORCH = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8",
    "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
    "I32": "int32", "U32": "uint32", "F32": "float32",
    "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64",
}  # fmt: skip
_SPELLED = {name: spelling for spelling, name in _TORCH.items()}


def torch_dtype(spelling: str) -> torch.dtype:
    """The torch dtype of a safetensors spelling (`BF16` -> `torch.bfloat16`).

    Raises:
        MixlabError: the spelling is unknown, the type is narrower than a byte, or the installed
            torch has no such type.
    """
    import torch

    item_size(spelling)
    found = getattr(torch, _TORCH[spelling], None)
    if found is None:
        raise MixlabError(f"dtype {spelling}: torch {torch.__version__} has no {_TORCH[spelling]}")
    return found


def spell(dtype: torch.dtype) -> str:
    """The safetensors spelling of a torch dtype (`torch.bfloat16` -> `BF16`).

    Raises:
        MixlabError: safetensors cannot hold that type.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in _SPELLED:
        raise MixlabError(f"dtype {name}: safetensors files cannot hold it; expected {_known()}")
    return _SPELLED[name]


def item_size(spelling: str) -> int:
    """Bytes of one value.

    Raises:
        MixlabError: the spelling is unknown, or one value takes less than a byte.
    """
    if spelling not in BITS:
        raise MixlabError(f"unknown dtype {spelling!r}; expected {_known()}")
    if BITS[spelling] % 8:
        raise MixlabError(
            f"dtype {spelling}: a value takes {BITS[spelling]} bits, so that single values cannot "
            "be addressed; such tensors can be kept but not mixed. Use an unquantised checkpoint"
        )
    return BITS[spelling] // 8


def tensor_size(spelling: str, shape: Sequence[int]) -> int:
    """Bytes of a whole tensor, types narrower than a byte included.

    Raises:
        MixlabError: the spelling is unknown, or the values do not fill whole bytes.
    """
    if spelling not in BITS:
        raise MixlabError(f"unknown dtype {spelling!r}; expected {_known()}")
    size, rest = divmod(math.prod(shape) * BITS[spelling], 8)
    if rest:
        raise MixlabError(f"{spelling}{list(shape)} does not fill whole bytes")
    return size


def _known() -> str:
    return ", ".join(_TORCH)
