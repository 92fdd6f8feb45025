"""A model's structure from its config.json alone: no weights, no code of the folder's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.models._classes import model_class
from mixlab.models._quiet import quiet
from mixlab.models.backbone import register

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def build_skeleton(folder: Path, config: Mapping[str, Any]) -> tuple[PreTrainedModel | None, str]:
    """The model on the meta device, and why there is none.

    Its class is the one that config.json names, where transformers has it, else the one that
    transformers has for the config's type.

    Returns:
        The model and "", or None and the reason: an unknown type, a part that cannot be built
        here.
    """
    import torch
    from transformers import AutoConfig

    register()
    kind = str(config.get("model_type"))
    try:
        with quiet():
            made: Any = AutoConfig.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:  # transformers raises many unrelated classes
        code = ", and its own code is not run" if "auto_map" in config else ""
        return None, f"transformers has no {kind}{code} ({_first_line(error)})"
    cls = model_class(made, config.get("architectures"))
    if cls is None:
        return None, f"transformers has no model for the type {kind}"
    try:
        with quiet(), torch.device("meta"):
            return cls(made), ""
    except Exception as error:  # a tower that needs a package, say
        return None, f"{cls.__name__} cannot be built here ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:160]
