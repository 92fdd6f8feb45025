"""Which recipes of a study answer which question."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from mixlab.attribute import (
    Recipe,
)
from mixlab.report._shares import Shares, parse_formats


@dataclass(frozen=True)
class Roles:
    """The recipes that answer the question: which is which."""

    none: Recipe | None
    mixed: Recipe | None
    dilution: Recipe | None
    diverse: Recipe | None
    diverse_partner: Recipe | None
    same_format: tuple[Recipe, ...]


def roles_of(arms: list[Recipe], shares: dict[str, Shares], runs: pd.DataFrame) -> Roles:
    """Find the recipes with a part in the answer; text is paired with its own dilution."""
    base = [r for r in arms if r.kind == "baseline"]
    mixes = {r.key: _asked(r, runs) for r in base}
    none_all = [r for r in base if shares[r.key].requested == 0]
    none = min(none_all, key=lambda r: (len(mixes[r.key]), -len(r.runs)), default=None)
    same = [r for r in base if none is not None and mixes[r.key] == mixes[none.key]]
    some = [r for r in same if shares[r.key].requested > 0]
    # Without a text arm in the same formats, one in others: the answer then says so.
    texts = some or [r for r in base if none is not None and shares[r.key].requested > 0]
    mixed = min(
        texts, key=lambda r: (-len(r.runs), abs(shares[r.key].requested - 0.25)), default=None
    )
    dilutions = [r for r in arms if r.kind == "dilution"]
    dilution = max(dilutions, key=lambda r: len(r.runs), default=None)
    if dilution is not None and none is not None and some:
        full = shares[none.key].supervised_tokens
        left = 1 - shares[dilution.key].supervised_tokens / full if full else math.nan
        if not math.isnan(left):
            most = max(len(r.runs) for r in some)
            mixed = min(
                (r for r in some if len(r.runs) == most),
                key=lambda r: abs(shares[r.key].requested - left),
            )
    others = [r for r in base if none is not None and len(mixes[r.key]) > len(mixes[none.key])]
    diverse = max(others, key=lambda r: len(r.runs), default=None)
    partner = None
    if diverse is not None:
        partner = min(
            same,
            key=lambda r: abs(shares[r.key].requested - shares[diverse.key].requested),
            default=None,
        )
        if partner and abs(shares[partner.key].requested - shares[diverse.key].requested) > 0.01:
            partner = None
    same.sort(key=lambda r: shares[r.key].requested)
    return Roles(none, mixed, dilution, diverse, partner, tuple(same))


def _asked(recipe: Recipe, runs: pd.DataFrame) -> tuple[tuple[str, float], ...]:
    row = runs.loc[runs["run"] == recipe.runs[0]].iloc[0]
    shares = parse_formats(row.get("formats"))
    return tuple(sorted((k, round(v, 6)) for k, v in shares.items() if v > 0))


def text_share_of(shares: dict[str, Shares], recipe: Recipe) -> float:
    """Realised share of text in supervised tokens; the requested one when not recorded."""
    value = shares[recipe.key].supervised
    return shares[recipe.key].requested if math.isnan(value) else value
