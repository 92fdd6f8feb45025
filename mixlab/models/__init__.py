"""Load a pair, take the backbone out and put it back, and turn messages into token ids."""

from mixlab.models._backbone import backbone_state, extract_backbone, splice_backbone
from mixlab.models._images import ImageInput, ImageReader
from mixlab.models._loading import LoadedModel, load_encoder, load_model
from mixlab.models._pair import PairReport, check_pair
from mixlab.models._prompt import Example, Prompt, PromptEncoder
from mixlab.models._saving import save_model_folder

__all__ = [
    "Example",
    "ImageInput",
    "ImageReader",
    "LoadedModel",
    "PairReport",
    "Prompt",
    "PromptEncoder",
    "backbone_state",
    "check_pair",
    "extract_backbone",
    "load_encoder",
    "load_model",
    "save_model_folder",
    "splice_backbone",
]
