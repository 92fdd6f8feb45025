"""Train one arm: a plan, a start and settings in; a complete model folder and a curve out."""

from mixlab.train._arm import TrainResult, train_arm
from mixlab.train._loop import fit
from mixlab.train._settings import ArmSettings, BatchSettings
from mixlab.train._trainable import choose_trainable

__all__ = [
    "ArmSettings",
    "BatchSettings",
    "TrainResult",
    "choose_trainable",
    "fit",
    "train_arm",
]
