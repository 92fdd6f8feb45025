"""Look into weights: how far a VLM's backbone drifted, and what a reference is to it."""

from mixlab.probe._display import lineage_text, tell_progress
from mixlab.probe._evidence import Evidence
from mixlab.probe._lineage import Lineage, Verdict, find_lineage
from mixlab.probe._rules import KINDS
from mixlab.probe._thresholds import Thresholds
from mixlab.probe._weights import Comparison, compare_weights

__all__ = [
    "KINDS",
    "Comparison",
    "Evidence",
    "Lineage",
    "Thresholds",
    "Verdict",
    "compare_weights",
    "find_lineage",
    "lineage_text",
    "tell_progress",
]
