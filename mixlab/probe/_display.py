"""Verdicts on lineage for a terminal."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Iterable

from mixlab.probe._lineage import Lineage, Verdict

_WIDTH = 100
_SECONDS = 5.0
_told = time.monotonic()


def tell_progress(done: int, total: int, name: str) -> None:
    """A line on standard error every few seconds."""
    global _told
    if time.monotonic() - _told >= _SECONDS:
        _told = time.monotonic()
        print(f"{done} of {total} tensors: {name}", file=sys.stderr, flush=True)


def lineage_text(lineage: Lineage, width: int = _WIDTH) -> str:
    """Verdicts first, then the evidence of each, then the ranking and its triangles."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(file=io.StringIO(), width=width, color_system=None)
    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("reference", "verdict", "rule"):
        table.add_column(name, overflow="fold")
    for name in ("distance", "cosine", "identical"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in lineage.verdicts:
        e = one.evidence
        table.add_row(
            Text(str(one.reference)), one.verdict, one.rule,
            f"{e.distance:.4f}", f"{e.cosine:.4f}", _share(e.identical),
        )  # fmt: skip
    console.print(Text(f"VLM {lineage.vlm}"))
    console.print(table)
    for one in lineage.verdicts:
        console.print(Text(f"\n{one.reference}: {one.verdict}"))
        for line in _evidence(one):
            console.print(Padding(Text(line), (0, 0, 0, 2)))
    for line in _ranking(lineage):
        console.print(Text(line))
    text = console.file
    assert isinstance(text, io.StringIO)
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())


def _evidence(one: Verdict) -> Iterable[str]:
    e = one.evidence
    yield f"rule {one.rule}: {one.because}"
    yield (
        f"blocks: {e.tensors_identical} of {e.tensors} tensors identical, {_share(e.identical)} of "
        f"elements; cosine of attention {_number(e.attention)}, of MLPs {_number(e.mlp)}"
    )
    if not math.isnan(e.rows):
        yield f"embeddings: {e.rows_identical:.0f} of {e.rows:.0f} shared rows untouched"
    if e.measured:
        rank = f" (rank up to {e.rank:.0f})" if e.low_rank else ""
        yield (
            f"low rank: 8 directions explain {e.low_rank_share:.1%} of a matrix's change (median); "
            f"{e.low_rank} of {e.measured} are of low rank but for rounding{rank}"
        )
    if not math.isnan(e.gains):
        kept = "" if math.isnan(e.kept) else f"; strongest directions kept at {e.kept:.2f}"
        yield f"norm weights correlate {e.gains:.3f}{kept}"
    yield from (f"support, {line}" for line in one.support)


def _ranking(lineage: Lineage) -> Iterable[str]:
    if len(lineage.verdicts) < 2:
        return
    yield "\nranking: " + " > ".join(
        f"{one.reference.name} ({one.verdict})" for one in lineage.ranking
    )
    names = [one.reference.name for one in lineage.verdicts]
    for triangle in lineage.triangles:
        first, second = (names[i] for i in triangle.pair)
        middle = "none" if triangle.middle is None else names[triangle.middle]
        at = ", ".join(
            f"{corner} {cosine:.3f}"
            for corner, cosine in zip(("VLM", first, second), triangle.cosines, strict=True)
        )
        yield f"triangle VLM, {first}, {second}: cosines at {at}; middle: {middle}"


def _share(value: float) -> str:
    # 0.9999 of a billion elements is not all of them.
    return "100%" if value == 1 else f"{min(value, 0.9999):.2%}"


def _number(value: float) -> str:
    return "none" if math.isnan(value) else f"{value:.4f}"
