"""Cards and names: heard as support, and between sibling and earlier ancestor alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_checkpoints import make_config, make_state, write_folder

from mixlab.probe import find_lineage

State = dict[str, torch.Tensor]


def _stepped(state: State, seed: int, size: float = 0.01) -> State:
    generator = torch.Generator().manual_seed(seed)
    return {
        n: t + size * torch.randn(t.shape, generator=generator) if t.ndim > 1 else t
        for n, t in state.items()
    }


@pytest.fixture
def family(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A VLM, its base, and a sibling, with steps too short for lengths to tell who is later."""
    about = {"width": 32, "vocab": 40}
    base = make_state(seed=1, **about)
    # A little weight decay hides that an update lengthens.
    sibling = {n: t * 0.999 for n, t in _stepped(base, 3).items()}
    seen = {f"language_model.{n}": t for n, t in _stepped(base, 2).items()}
    seen["vision_tower.blocks.0.mlp.fc1.weight"] = torch.ones(4, 4)
    return (
        write_folder(tmp_path / "vlm", seen, make_config(layout="llava", **about)),
        write_folder(tmp_path / "base", base, make_config(**about)),
        write_folder(tmp_path / "sibling", sibling, make_config(**about)),
    )


def _card(folder: Path, text: str) -> None:
    (folder / "README.md").write_text(f"---\n{text}\n---\n# A model\n")


def _verdicts(vlm: Path, *references: Path) -> list[str]:
    return [one.verdict for one in find_lineage(vlm, references).verdicts]


def test_without_cards_the_far_side_is_unknown(family: tuple[Path, Path, Path]) -> None:
    assert _verdicts(*family) == ["ancestor", "related, direction unknown"]


def test_the_middle_says_what_it_cannot_tell_from_the_ancestor(
    family: tuple[Path, Path, Path],
) -> None:
    found = find_lineage(family[0], family[1:]).verdicts[0]
    assert found.rule == "triangle"
    assert "a model tuned from it by up to" in found.because


def test_a_card_tells_a_sibling(family: tuple[Path, Path, Path]) -> None:
    _card(family[2], "base_model: somebody/Base")
    assert _verdicts(*family) == ["ancestor", "sibling"]


def test_a_card_tells_an_earlier_ancestor(family: tuple[Path, Path, Path]) -> None:
    _card(family[1], "base_model: [somebody/sibling]")
    assert _verdicts(*family) == ["ancestor", "earlier ancestor"]


def test_a_card_makes_no_ancestor(family: tuple[Path, Path, Path], tmp_path: Path) -> None:
    vlm, base, _ = family
    stranger = write_folder(
        tmp_path / "famous", make_state(seed=8, width=32, vocab=40), make_config(width=32, vocab=40)
    )
    _card(vlm, "base_model: owner/famous\nlicense: mit")
    assert _verdicts(vlm, stranger) == ["stranger"]
    assert _verdicts(vlm, base) == ["related, direction unknown"]
    told = find_lineage(vlm, [stranger]).verdicts[0].support
    assert "card: the VLM's names owner/famous as base model; it is the one" in told


@pytest.mark.parametrize(
    "text", ["base_model: [", "- a list", "base_model: {a: 1}", "base_model: 3\nlicense: [a]"]
)
def test_a_damaged_card_says_nothing(family: tuple[Path, Path, Path], text: str) -> None:
    for folder in family:
        _card(folder, text)
        (folder / "tokenizer_config.json").write_text("[1]")
    assert _verdicts(*family) == ["ancestor", "related, direction unknown"]
