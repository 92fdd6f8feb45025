"""All that keeps models from being merged, told at once."""

from __future__ import annotations

from mixlab.spec import MixlabError

_SHOWN = 12


class Mistakes:
    """Collects mistakes; those with one mend are listed together, with the mend below."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, line: str, mend: str = "") -> None:
        """One mistake, and what to do about it (once for all that share it)."""
        self._lines.setdefault(mend, []).append(line)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(lines) for lines in self._lines.values())

    def stop(self, head: str) -> None:
        """Raise if there are any.

        Raises:
            MixlabError: `head`, then every mistake.
        """
        count = self.count
        if not count:
            return
        told = []
        for mend, lines in self._lines.items():
            told += lines[:_SHOWN]
            if len(lines) > _SHOWN:
                told.append(f"and {len(lines) - _SHOWN} more of this kind")
            if mend:
                told.append(f"-> {mend}")
        if count == 1:
            raise MixlabError("; ".join(line.removeprefix("-> ") for line in told))
        raise MixlabError(f"{head} in {count} places:\n  " + "\n  ".join(told))
