"""The language model inside a VLM: its tensors, a stand-alone LM of them, and the way back."""

from mixlab.models.backbone._compare import Difference, compare_configs
from mixlab.models.backbone._config import backbone_config
from mixlab.models.backbone._extract import extract_backbone
from mixlab.models.backbone._register import register
from mixlab.models.backbone._splice import splice_backbone
from mixlab.models.backbone._state import backbone_state, tied, vocabulary_names

__all__ = [
    "Difference",
    "backbone_config",
    "backbone_state",
    "compare_configs",
    "extract_backbone",
    "register",
    "splice_backbone",
    "tied",
    "vocabulary_names",
]
