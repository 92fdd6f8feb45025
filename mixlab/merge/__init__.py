"""Merging of language-model weights: on tensors, state dicts, live models and checkpoints."""

from mixlab.merge import kernels as kernels
from mixlab.merge._method import Context, MergeMethod, get_method, merge_method, method_names
from mixlab.merge._path import MergePath, TensorReport
from mixlab.merge.methods import linear, wise_ft

__all__ = [
    "Context",
    "MergeMethod",
    "MergePath",
    "TensorReport",
    "get_method",
    "linear",
    "merge_method",
    "method_names",
    "wise_ft",
]
