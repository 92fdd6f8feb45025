"""Make a plan: shares to cells, cells to rows, rows to steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixlab.formats import FORMATS
from mixlab.spec import MixlabError

from ._draw import Cell, Drawn, draw
from ._encoding import Encoder, encoded_rows
from ._plan import COLUMNS, Plan
from ._rounding import CellKey, round_cells
from ._shares import cell_shares
from ._source import Source
from ._spec import MODALITIES, MixSpec


def make_plan(
    spec: MixSpec,
    sources: Sequence[Source],
    encoder: Encoder,
    *,
    steps: int,
    batch_supervised_tokens: int,
    seed: int,
    vision_scale: float = 1.0,
    budget: str = "total",
) -> Plan:
    """Materialise a mix as an ordered list of rows.

    Shares are counted in supervised tokens. Every share (text in the whole; sources and formats
    within their modality) comes out within one row's tokens of the request, every step holds
    about `batch_supervised_tokens` (within one row) and the mix in even measure. Rows are drawn
    pass after pass, each pass in an order of its own. The same arguments give the same plan in
    any process.

    Args:
        spec: the mix.
        sources: its loaded sources, in its order.
        encoder: counts tokens.
        steps: number of optimizer steps at `vision_scale` 1 and budget `total`.
        batch_supervised_tokens: supervised tokens a step.
        seed: decides the order of rows.
        vision_scale: times the vision budget. For the dilution arm (text_fraction 0, scale
            1 - f): the tokens of a step stay and steps * (1 - f) steps are taken, so the arm sees
            fewer supervised tokens in total.
        budget: `total` holds all tokens at steps * batch, so more text means less vision;
            `vision` holds the vision tokens there and adds text, with more steps.

    Raises:
        MixlabError: settings that no plan can meet, or rows that can't be encoded (source and
            row are named).
    """
    total, steps = _budget(spec, steps, batch_supervised_tokens, vision_scale, budget)
    _check_sources(spec, sources)
    keys: list[CellKey] = []
    cells: list[Cell] = []
    dropped: list[list[Any]] = []
    for modality in MODALITIES:
        tokens = total * spec.modality_shares()[modality]
        chosen = [source for source in sources if source.modality == modality]
        if tokens <= 0 or not chosen:
            continue
        formats = spec.format_shares(modality)
        shares = cell_shares(chosen, formats, modality)
        for source, row in zip(chosen, shares, strict=True):
            targets = {
                name: tokens * share for name, share in zip(formats, row, strict=True) if share > 0
            }
            if not targets:
                continue
            drawn = draw(
                source,
                targets,
                encoded_rows(source, encoder),
                seed=seed,
                drops=spec.drops == "allow",
            )
            for name, cell in drawn.cells.items():
                keys.append(CellKey(modality, source.name, name))
                cells.append(cell)
            dropped += [[source.name, row, fmt, why] for (row, fmt), why in drawn.dropped.items()]
    for cell, taken in zip(cells, round_cells(keys, cells), strict=True):
        if taken and cell.extra is not None:
            cell.drawn.append(cell.extra)
    columns = _interleave(sources, keys, cells)
    about = {
        "mix": spec.model_dump(mode="json"),
        "steps": steps,
        "batch_supervised_tokens": batch_supervised_tokens,
        "seed": seed,
        "vision_scale": vision_scale,
        "budget": budget,
        "requested": [
            [key.source, key.format, cell.target / total]
            for key, cell in zip(keys, cells, strict=True)
        ],
        "dropped": dropped,
    }
    return Plan(
        columns=columns,
        starts=_cut(columns["supervised"], steps, batch_supervised_tokens),
        sources=tuple(
            {
                "name": source.name,
                "modality": source.modality,
                "digest": source.digest,
                "rows": len(source.rows),
            }
            for source in sources
        ),
        about=about,
        encoder=encoder.digest,
    )


def _budget(
    spec: MixSpec, steps: int, batch: int, vision_scale: float, budget: str
) -> tuple[float, int]:
    """(supervised tokens in total, steps)."""
    if steps < 1 or batch < 1:
        raise MixlabError(
            f"found {steps} steps of {batch} supervised tokens; both must be at least 1"
        )
    if not (vision_scale > 0 and math.isfinite(vision_scale)):
        raise MixlabError(f"vision_scale is {vision_scale:g}; expected a number above 0")
    if budget not in ("total", "vision"):
        raise MixlabError(f"unknown budget {budget!r}; expected 'total' or 'vision'")
    if vision_scale != 1.0 and spec.text_fraction > 0:
        raise MixlabError(
            f"vision_scale {vision_scale:g} with text_fraction {spec.text_fraction:g}: scaling the "
            "vision budget would change the text fraction; the dilution arm has text_fraction 0"
        )
    factor = vision_scale
    if budget == "vision":
        if spec.text_fraction >= 1.0:
            raise MixlabError(
                "budget 'vision' holds the vision tokens fixed, but text_fraction 1 leaves none; "
                "use budget: total"
            )
        factor /= 1.0 - spec.text_fraction
    # Rounding the steps, not the tokens of a step, keeps every step alike between arms.
    made = max(1, math.floor(steps * factor + 0.5))
    return float(made * batch), made


def _check_sources(spec: MixSpec, sources: Sequence[Source]) -> None:
    found = [source.name for source in sources]
    wanted = [source.name for source in spec.sources]
    if found != wanted:
        raise MixlabError(
            f"mix {spec.name!r} names sources {wanted}, but {found} were given; load them with "
            "load_sources(spec, ...)"
        )


def _interleave(
    sources: Sequence[Source], keys: Sequence[CellKey], cells: Sequence[Cell]
) -> dict[str, np.ndarray]:
    """All rows in one order in which every stretch holds the mix.

    A row's place is the share of its cell's tokens that lie before its middle; sorting by place
    spreads each cell evenly over the whole plan.
    """
    index = {source.name: number for number, source in enumerate(sources)}
    parts: list[dict[str, np.ndarray]] = []
    places: list[np.ndarray] = []
    for key, cell in zip(keys, cells, strict=True):
        rows: list[Drawn] = cell.drawn
        if not rows:
            continue
        supervised = np.array([drawn.supervised for drawn in rows], dtype=np.int64)
        places.append((np.cumsum(supervised) - supervised / 2) / supervised.sum())
        parts.append(
            {
                "source": np.full(len(rows), index[key.source]),
                "row": np.array([drawn.row for drawn in rows]),
                "turn": np.array([drawn.turn for drawn in rows]),
                "format": np.full(len(rows), FORMATS.index(key.format)),
                "supervised": supervised,
                "tokens": np.array([drawn.tokens for drawn in rows]),
            }
        )
    if not parts:
        raise MixlabError("the plan is empty: every row is longer than the whole token budget")
    order = np.argsort(np.concatenate(places), kind="stable")
    return {
        name: np.concatenate([part[name] for part in parts])[order].astype(dtype)
        for name, dtype in COLUMNS.items()
    }


def _cut(supervised: np.ndarray, steps: int, batch: int) -> np.ndarray:
    """Where steps begin, int64 [steps + 1]: at the row boundary nearest to equal parts."""
    ends = np.concatenate([[0], np.cumsum(supervised, dtype=np.int64)])
    ideal = np.arange(steps + 1) * (ends[-1] / steps)
    after = np.searchsorted(ends, ideal, side="left").clip(1, len(ends) - 1)
    before = after - 1
    nearest = np.where(ideal - ends[before] < ends[after] - ideal, before, after)
    nearest[0], nearest[-1] = 0, len(supervised)
    if (np.diff(nearest) < 1).any():
        raise MixlabError(
            f"steps of {batch} supervised tokens are too small: the longest row has "
            f"{int(supervised.max())}, so a step would hold no row; raise the tokens of a step "
            "or shorten the rows"
        )
    return nearest.astype("<i8")


def requested_shares(about: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """(source, format) -> share of all supervised tokens that was asked for."""
    return {(source, fmt): float(share) for source, fmt, share in about["requested"]}
