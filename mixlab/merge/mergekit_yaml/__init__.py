"""mergekit's YAML files, run as they are: their language becomes plans like any other's."""

from mixlab.merge.mergekit_yaml._document import Document, is_mergekit, read_documents
from mixlab.merge.mergekit_yaml._references import Reference, parse_reference
from mixlab.merge.mergekit_yaml._stages import Stage, plan_mergekit, run_mergekit

__all__ = [
    "Document",
    "Reference",
    "Stage",
    "is_mergekit",
    "parse_reference",
    "plan_mergekit",
    "read_documents",
    "run_mergekit",
]
