"""Checked reading of safetensors folders, and weight digests. Imports no transformers."""

from mixlab.checkpoint._digest import digest_folder, digest_state, distinct_tensors
from mixlab.checkpoint._header import TensorEntry, read_header, weight_files
from mixlab.checkpoint._reading import read_state
from mixlab.checkpoint._source import TensorSource

__all__ = [
    "TensorEntry",
    "TensorSource",
    "digest_folder",
    "digest_state",
    "distinct_tensors",
    "read_header",
    "read_state",
    "weight_files",
]
