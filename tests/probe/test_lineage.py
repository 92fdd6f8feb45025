"""Verdicts on planted lineage. Limits were set on the worlds of even seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from mixlab.probe import find_lineage
from tests.probe.planting import World, ask

MEASURED = (1, 3, 5, 7, 9)


def _judge(worlds: Iterable[World], root: Path) -> tuple[Counter[tuple[str, str]], list[str], int]:
    """Confusion (planted, found), what was wrong, and how many pairs were planted."""
    confusion: Counter[tuple[str, str]] = Counter()
    wrong, planted = [], 0
    for world in worlds:
        for question in ask(world, root / str(world.seed)):
            found = find_lineage(question.vlm, list(question.references))
            for one, (folder, allowed) in zip(
                found.verdicts, question.references.items(), strict=True
            ):
                planted += 1
                confusion[allowed[0], one.verdict] += 1
                if one.verdict not in allowed:
                    told = f"{one.verdict} ({one.because}), planted {allowed[0]}"
                    wrong.append(f"world {world.seed}, {question.kind}, {folder.name}: {told}")
    return confusion, wrong, planted


def _check(confusion: Counter[tuple[str, str]], wrong: list[str], planted: int) -> None:
    assert planted >= 60
    assert len(wrong) <= 0.05 * planted, "\n".join(wrong)
    found_ancestor = {planted for planted, found in confusion if found == "ancestor"}
    assert "stranger" not in found_ancestor
    missed = {found for planted, found in confusion if planted == "stranger"}
    assert missed == {"stranger"}


def test_a_planted_world(world_of: Callable[[int], World], tmp_path: Path) -> None:
    _check(*_judge([world_of(1)], tmp_path))


@pytest.mark.slow
def test_planted_worlds(world_of: Callable[[int], World], tmp_path: Path) -> None:
    confusion, wrong, planted = _judge(map(world_of, MEASURED), tmp_path)
    print(f"{planted} planted pairs, {len(wrong)} wrong", *wrong, sep="\n")
    for (expected, found), count in sorted(confusion.items()):
        print(f"{expected:28} {found:28} {count}")
    _check(confusion, wrong, planted)
