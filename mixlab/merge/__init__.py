"""Merging of language-model weights: on tensors, state dicts, live models and checkpoints."""

from mixlab.merge import kernels as kernels
from mixlab.merge._method import Context, MergeMethod, get_method, merge_method, method_names
from mixlab.merge._path import MergePath, TensorReport
from mixlab.merge._schedule import Schedule
from mixlab.merge.methods import (
    arcee_fusion,
    karcher,
    linear,
    model_stock,
    multislerp,
    nearswap,
    nuslerp,
    passthrough,
    ram,
    ramplus_tl,
    sce,
    slerp,
    wise_ft,
)

__all__ = [
    "Context",
    "MergeMethod",
    "MergePath",
    "Schedule",
    "TensorReport",
    "arcee_fusion",
    "get_method",
    "karcher",
    "linear",
    "merge_method",
    "method_names",
    "model_stock",
    "multislerp",
    "nearswap",
    "nuslerp",
    "passthrough",
    "ram",
    "ramplus_tl",
    "sce",
    "slerp",
    "wise_ft",
]
