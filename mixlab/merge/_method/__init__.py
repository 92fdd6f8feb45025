"""Merge methods: a formula on tensors, its typed settings, its fast path, its name."""

from mixlab.merge._method._context import Context, Tensors
from mixlab.merge._method._kernels import Kernel, Span, kernel
from mixlab.merge._method._method import Base, MergeMethod
from mixlab.merge._method._registry import get_method, merge_method, method_names
from mixlab.merge._method._settings import PerModel, Share, spelled

__all__ = [
    "Base",
    "Context",
    "Kernel",
    "MergeMethod",
    "PerModel",
    "Share",
    "Span",
    "Tensors",
    "get_method",
    "kernel",
    "merge_method",
    "method_names",
    "spelled",
]
