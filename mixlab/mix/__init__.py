"""Data mixes: sources, a materialised plan, its receipt, and batches."""

from mixlab.spec import register

from ._collate import collate
from ._describe import describe
from ._draw import pass_order
from ._plan import Plan, PlanRow
from ._planning import make_plan
from ._receipt import receipt
from ._rows import Row
from ._source import Source, find_source, load_sources
from ._spec import MODALITIES, FormatShares, MixSpec, SourceSpec, dilution, text_twin

register("mix", MixSpec)

__all__ = [
    "MODALITIES",
    "FormatShares",
    "MixSpec",
    "Plan",
    "PlanRow",
    "Row",
    "Source",
    "SourceSpec",
    "collate",
    "describe",
    "dilution",
    "find_source",
    "load_sources",
    "make_plan",
    "pass_order",
    "receipt",
    "text_twin",
]
