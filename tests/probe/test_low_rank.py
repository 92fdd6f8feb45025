"""Planted low ranks: their rank, and which side was rounded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mixlab.checkpoint import Checkpoint
from mixlab.probe._low_rank import HYPOTHESES, LowRank, measure_low_rank

SHAPE = (96, 160)


def _measure(tmp_path: Path, v: torch.Tensor, r: torch.Tensor) -> LowRank:
    sources = []
    for name, tensor in (("v", v), ("r", r)):
        (tmp_path / name).mkdir(exist_ok=True)
        save_file({"w": tensor.contiguous()}, tmp_path / name / "model.safetensors")
        sources.append(Checkpoint.open(tmp_path / name))
    return measure_low_rank(sources[0], "w", sources[1], "w", SHAPE, 1.4)


def _best(found: LowRank) -> str:
    return max(zip(found.scores, HYPOTHESES, strict=True))[1]


def _change(rank: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(SHAPE[0], rank, generator=generator, dtype=torch.float64)
    return (
        3e-3
        / rank**0.5
        * left
        @ torch.randn(rank, SHAPE[1], generator=generator, dtype=torch.float64)
    )


def _base(dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(9)
    return (0.1 * torch.randn(SHAPE, generator=generator)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rank", [1, 4, 12])
def test_who_was_rounded(tmp_path: Path, dtype: torch.dtype, rank: int) -> None:
    base = _base(dtype)
    mine, its = ((base.double() + _change(rank, seed)).to(dtype) for seed in (1, 2))
    for at, (v, r) in enumerate(((mine, base), (base, mine))):
        found = _measure(tmp_path, v, r)
        assert found.rank == rank
        assert _best(found) == ("vlm", "reference")[at]
        assert found.fits[at] == pytest.approx(1, abs=0.1)
    found = _measure(tmp_path, mine, its)
    assert found.rank == 2 * rank
    assert _best(found) == "both"
    assert found.fits[2] == pytest.approx(1, abs=0.1)
    assert found.fits[0] > 1.7


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_two_merges_in_a_row(tmp_path: Path, dtype: torch.dtype) -> None:
    base = _base(dtype)
    middle = (base.double() + 20 * _change(3, 1)).to(dtype)
    last = (middle.double() + 20 * _change(3, 2)).to(dtype)
    assert _best(_measure(tmp_path, last, base)) == "vlm twice"
    assert _best(_measure(tmp_path, base, last)) == "reference twice"
    other = (base.double() + 20 * _change(3, 3)).to(dtype)
    assert _best(_measure(tmp_path, middle, other)) == "both"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_update_rounded_before_it_is_added_is_no_second_rounding(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    """As peft merges: B A in the weight's dtype, as large as the weight here."""
    base = _base(dtype)
    tuned = base + (30 * _change(4, 1)).to(dtype)
    assert _best(_measure(tmp_path, tuned, base)) == "vlm"


@pytest.mark.parametrize("rank", [3, 23])
def test_equal_strengths_are_all_counted(tmp_path: Path, rank: int) -> None:
    """One direction too few would leave as much energy as a second rounding."""
    base = _base(torch.bfloat16)
    left, right = (
        torch.linalg.qr(torch.randn(n, rank, generator=torch.Generator().manual_seed(n)))[0]
        for n in SHAPE
    )
    tuned = (base.double() + 0.15 * left.double() @ right.double().T).to(torch.bfloat16)
    found = _measure(tmp_path, tuned, base)
    assert found.rank == rank
    assert _best(found) == "vlm"


def test_a_full_change_has_no_low_rank(tmp_path: Path) -> None:
    base = _base(torch.float32)
    change = 1e-2 * torch.randn(SHAPE, generator=torch.Generator().manual_seed(3))
    assert _measure(tmp_path, base + change, base).rank is None


def test_a_low_rank_and_a_little_more_is_no_low_rank(tmp_path: Path) -> None:
    base = _base(torch.float32)
    generator = torch.Generator().manual_seed(3)
    tuned = base + _change(4, 1).float() + 1e-6 * torch.randn(SHAPE, generator=generator)
    assert _measure(tmp_path, tuned, base).rank is None


def test_share_is_that_of_the_whole_svd(tmp_path: Path) -> None:
    base = _base(torch.float32)
    generator = torch.Generator().manual_seed(4)
    left, values, right = torch.linalg.svd(torch.randn(SHAPE, generator=generator))
    change = 0.1 * (left * 0.8 ** torch.arange(len(values))) @ right[: len(values)]
    found = _measure(tmp_path, base + change, base)
    values = torch.linalg.svdvals((base + change).double() - base.double())
    exact = float((values[:8] ** 2).sum() / (values**2).sum())
    assert found.share == pytest.approx(exact, rel=1e-3)
    assert found.rank is None


def test_steps_of_a_whole_spacing_tell_no_rank(tmp_path: Path) -> None:
    base = _base(torch.bfloat16)
    tuned = base.clone()
    tuned[3, 5:9] = (tuned[3, 5:9].view(torch.int16) + 1).view(torch.bfloat16)
    assert _measure(tmp_path, tuned, base).rank is None
