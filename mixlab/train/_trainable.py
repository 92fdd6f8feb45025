"""Which parameters an arm trains."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mixlab.models import backbone_state
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_PARTS = ("language_model", "projector", "vision_tower")
# What transformers' VLMs call the layers between vision tower and language model.
_PROJECTOR = ("projector", "connector", "merger", "aligner", "resampler")


def choose_trainable(
    model: PreTrainedModel, patterns: Sequence[str]
) -> dict[str, torch.nn.Parameter]:
    """Set `requires_grad` by `patterns`; returns the trained parameters by name, tied ones once.

    Raises:
        MixlabError: a pattern matches no parameter, or none is trained.
    """
    inside = {t.data_ptr() for t in backbone_state(model).values()}
    parts = {
        name: "language_model"
        if parameter.data_ptr() in inside
        else "projector"
        if any(word in name for word in _PROJECTOR)
        else "vision_tower"
        for name, parameter in model.named_parameters()
    }
    chosen: set[str] = set()
    for pattern in patterns:
        if pattern in _PARTS:
            found = {name for name, part in parts.items() if part == pattern}
        else:
            found = {name for name in parts if fnmatchcase(name, pattern)}
        if not found:
            raise MixlabError(
                f"trainable: {pattern!r} matches no parameter of {type(model).__name__}; use "
                f"{', '.join(p for p in _PARTS if p in parts.values())}, or a pattern on names "
                f"such as {next(iter(parts))!r}"
            )
        chosen |= found
    if not chosen:
        raise MixlabError("trainable is empty; name at least one part, such as language_model")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in chosen)
    return {name: p for name, p in model.named_parameters() if name in chosen}
