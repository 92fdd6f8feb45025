"""Transformers' progress bars and warnings off for a while: callers tell what matters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet(*, errors: bool = True) -> Iterator[None]:
    """Set transformers' logging to errors and its bars off, and both back at the end.

    Args:
        errors: whether it may still log those; without, what it raises is all that is heard.
    """
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.ERROR if errors else logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
