"""Train one arm: a plan, a start and settings in; a complete model folder and a curve out."""

from typing import TYPE_CHECKING, Any

from mixlab.train._diverged import Diverged
from mixlab.train._settings import ArmSettings, BatchSettings

if TYPE_CHECKING:
    from mixlab.train._arm import TrainResult, train_arm
    from mixlab.train._loop import fit
    from mixlab.train._trainable import choose_trainable

__all__ = [
    "ArmSettings",
    "BatchSettings",
    "Diverged",
    "TrainResult",
    "choose_trainable",
    "fit",
    "train_arm",
]

# Settings are read by specs and `--help`, which need no torch.
_LATER = {
    "TrainResult": "mixlab.train._arm",
    "train_arm": "mixlab.train._arm",
    "fit": "mixlab.train._loop",
    "choose_trainable": "mixlab.train._trainable",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
