"""What every operator is: a declared attempt to bring a skill back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import pandas as pd

    from mixlab.models import LoadedModel

Score = Callable[["LoadedModel"], "pd.DataFrame"]
"""Scores a loaded model as it is now; returns rows as `mixlab.score.score_model` does."""

Kind = Literal["access", "repair"]


class Operator(Protocol):
    """An attempt to bring a skill back, with what it may use declared beforehand.

    `kind` access: sees neither the reference's weights or outputs nor the tested items (hint,
    few-shot, refresh on disjoint items). `kind` repair: imports from the reference (merge,
    distil), and is reported as repairability, never as access. `imports` says what comes in, in
    words. `declared()` holds all of it as plain data, for digests and the report.
    """

    name: str
    kind: Kind
    imports: str

    def declared(self) -> dict[str, Any]:
        """Name, kind, imports and settings as plain data."""
        ...

    def apply(self, loaded: LoadedModel, score: Score) -> pd.DataFrame:
        """Score `loaded` under the operator and leave it as it was, bit for bit.

        The rows of `score` with `operator` (the operator's name) and `alpha` (float; NaN where
        the operator has none).
        """
        ...
