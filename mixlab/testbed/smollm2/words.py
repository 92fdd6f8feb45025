"""The word lists of `words.yaml`."""

from functools import cache
from pathlib import Path

import yaml


@cache
def _lists() -> dict[str, str]:
    text = Path(__file__).with_name("words.yaml").read_text(encoding="utf-8")
    lists: dict[str, str] = yaml.safe_load(text)
    return lists


def words(name: str) -> tuple[str, ...]:
    """The list of that name, in the file's order."""
    return tuple(_lists()[name].split())
