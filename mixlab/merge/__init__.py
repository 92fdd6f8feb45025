"""Merging of language-model weights: on tensors, state dicts, live models and checkpoints."""

from mixlab.merge import kernels as kernels
from mixlab.merge._method import Context, MergeMethod, get_method, merge_method, method_names
from mixlab.merge._path import MergePath, TensorReport
from mixlab.merge._schedule import Schedule
from mixlab.merge._soup import GreedySoup, greedy_soup
from mixlab.merge.methods import (
    arcee_fusion,
    fisher,
    karcher,
    keep_far_movers,
    linear,
    lines,
    model_stock,
    multislerp,
    nearswap,
    nuslerp,
    passthrough,
    permuted_direction,
    ram,
    ramplus_tl,
    random_direction,
    sce,
    slerp,
    star,
    tsv,
    wise_ft,
)
from mixlab.merge.recipes import named_recipes

__all__ = [
    "Context",
    "GreedySoup",
    "MergeMethod",
    "MergePath",
    "Schedule",
    "TensorReport",
    "arcee_fusion",
    "fisher",
    "get_method",
    "greedy_soup",
    "karcher",
    "keep_far_movers",
    "linear",
    "lines",
    "merge_method",
    "method_names",
    "model_stock",
    "multislerp",
    "named_recipes",
    "nearswap",
    "nuslerp",
    "passthrough",
    "permuted_direction",
    "ram",
    "ramplus_tl",
    "random_direction",
    "sce",
    "slerp",
    "star",
    "tsv",
    "wise_ft",
]
