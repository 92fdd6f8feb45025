"""Weights that can be computed with: those that are not stored quantised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

_TEXT = ("text_config", "llm_config", "language_config")
# What packed weights keep beside them, whatever config.json says.
_PACKED = (
    ".qweight", ".qzeros", ".g_idx", ".SCB", ".absmax", ".weight_scale", ".weight_scale_inv",
    ".weight_packed", ".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4",
)  # fmt: skip


def text_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's part of a config.json; all of it where there is no such part."""
    inner = (config.get(key) for key in _TEXT)
    return next((part for part in inner if isinstance(part, dict)), dict(config))


def check_plain(folder: Path, config: Mapping[str, Any], names: Iterable[str] = ()) -> None:
    """Refuse weights that are stored quantised.

    Args:
        config: of the folder's config.json.
        names: of its tensors.

    Raises:
        MixlabError: by which method, or which tensor shows it, and how to dequantise them.
    """
    for part in (config, text_part(config)):
        about = part.get("quantization_config")
        if about:
            how = about.get("quant_method", "") if isinstance(about, dict) else ""
            raise _quantised(folder / "config.json", f" ({how})" if how else "")
    packed = next((name for name in names if name.endswith(_PACKED)), None)
    if packed is not None:
        raise _quantised(folder, f" (it holds {packed})")


def _quantised(where: Path, how: str) -> MixlabError:
    return MixlabError(
        f"{where}: the weights are quantised{how} and cannot be averaged or compared; give the "
        "unquantised model, or load it with transformers, call model.dequantize() and "
        "save_pretrained()"
    )
