"""Tasks, protocols, extraction, the runner and its response cache."""

from mixlab.score._adapters import ADAPTERS
from mixlab.score._cache import Answer, ResponseCache
from mixlab.score._conditions import CONDITIONS, permuted_images
from mixlab.score._extract import read_letter, read_number, read_texts
from mixlab.score._items_table import items_table
from mixlab.score._judge import form_right, judge, semantic_right, strict_right
from mixlab.score._load import foreign_task, load_task
from mixlab.score._protocol import PROTOCOLS, Protocol, protocol
from mixlab.score._runner import COLUMNS, Scorer, score_model
from mixlab.score._task import CONSTRUCTS, METRICS, SPLITS, Item, Task

__all__ = [
    "ADAPTERS",
    "COLUMNS",
    "CONDITIONS",
    "CONSTRUCTS",
    "METRICS",
    "PROTOCOLS",
    "SPLITS",
    "Answer",
    "Item",
    "Protocol",
    "ResponseCache",
    "Scorer",
    "Task",
    "foreign_task",
    "form_right",
    "items_table",
    "judge",
    "load_task",
    "permuted_images",
    "protocol",
    "read_letter",
    "read_number",
    "read_texts",
    "score_model",
    "semantic_right",
    "strict_right",
]
