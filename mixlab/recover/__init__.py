"""Operators: declared attempts to bring a skill back."""

from mixlab.recover._merge import MergeOperator, merge_operator, without_operator
from mixlab.recover._operator import Kind, Operator, Score

__all__ = ["Kind", "MergeOperator", "Operator", "Score", "merge_operator", "without_operator"]
