"""Load a pair, take the backbone out and put it back, and turn messages into token ids."""

from mixlab.models._images import ImageInput, ImageReader
from mixlab.models._loading import LoadedModel, load_encoder, load_model
from mixlab.models._pair import PairReport, check_pair
from mixlab.models._prompt import Example, Prompt, PromptEncoder
from mixlab.models._quiet import quiet
from mixlab.models._saving import save_model_folder
from mixlab.models.backbone import (
    Difference,
    backbone_config,
    backbone_state,
    compare_configs,
    extract_backbone,
    register,
    splice_backbone,
)
from mixlab.models.backbone._register import register_if_loaded

register_if_loaded()

__all__ = [
    "Difference",
    "Example",
    "ImageInput",
    "ImageReader",
    "LoadedModel",
    "PairReport",
    "Prompt",
    "PromptEncoder",
    "backbone_config",
    "backbone_state",
    "check_pair",
    "compare_configs",
    "extract_backbone",
    "load_encoder",
    "load_model",
    "quiet",
    "register",
    "save_model_folder",
    "splice_backbone",
]
