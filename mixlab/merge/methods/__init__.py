"""The formulas: one definition each, on tensors."""

from mixlab.merge.methods._linear import linear, wise_ft

__all__ = ["linear", "wise_ft"]
