"""The recipe of a VLM and its reference, from a handful of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

_DEFAULT = "wise_ft"


def pair_recipe(
    vlm: str | Path,
    reference: str | Path,
    *,
    alpha: float | None = None,
    method: str | None = None,
) -> dict[str, Any]:
    """A recipe that merges the language model of `vlm` with `reference`.

    Args:
        alpha: weight of the VLM: theta = (1 - alpha) * reference + alpha * VLM. Other methods have
            other settings, which overrides give (`settings.density=0.2`, `vlm.weight=0.7`).
        method: `wise_ft` by default.

    Raises:
        MixlabError: the weighted average of a pair without alpha.
    """
    method = method or _DEFAULT
    if method == _DEFAULT and alpha is None:
        raise MixlabError(
            "how much of the VLM? Give --alpha, from 0 (the reference) to 1 (the VLM untouched); "
            "or another --method"
        )
    settings = {} if alpha is None else {"alpha": alpha}
    return {
        "method": method,
        "vlm": {"model": str(vlm)},
        "reference": {"model": str(reference)},
        **({"settings": settings} if settings else {}),
    }
