"""Merging of language-model weights, on tensors and in place over a live model."""

from mixlab.merge._linear import linear
from mixlab.merge._path import MergePath, TensorReport

__all__ = ["MergePath", "TensorReport", "linear"]
