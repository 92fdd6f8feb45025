"""Mistakes in a spec, with the place and the nearest right word."""

import difflib
from collections.abc import Iterable

from mixlab import MixlabError


class SpecError(MixlabError):
    """A mistake in a settings file.

    Attributes:
        file: the file, or the override that held the mistake; None for data given in Python.
        line: 1-based line, None where there is none.
    """

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + message)
        self.file = file
        self.line = line


def nearest(word: object, options: Iterable[object]) -> str:
    """`; did you mean 'x'?` for the option closest to `word`, else the list of options.

    Options come back sorted; the empty string when there are none.
    """
    known = sorted({str(option) for option in options})
    if not known:
        return ""
    close = difflib.get_close_matches(str(word), known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return "; expected one of " + ", ".join(known)
