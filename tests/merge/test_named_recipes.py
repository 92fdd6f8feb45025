"""The packaged recipes on tiny models: a VLM, its reference and an ancestor."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_checkpoints import write_model

from mixlab.checkpoint import read_state
from mixlab.merge import merge_checkpoints, named_recipes
from mixlab.merge.planning._recipe import load_recipe
from mixlab.spec import MixlabError

SEVEN = [
    "audit-95-5",
    "audit-dare-0.9",
    "audit-star-40",
    "audit-task-arithmetic-1",
    "audit-ties-0.2",
    "audit-tsv-1",
    "audit-uniform",
]
NORM = "model.layers.1.input_layernorm.weight"
MATRIX = "model.layers.1.mlp.up_proj.weight"
INSIDE = "language_model."


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        "vlm": write_model(root / "vlm", layout="llava", seed=1),
        "reference": write_model(root / "reference", seed=2),
        "ancestor": write_model(root / "ancestor", seed=3),
    }


@pytest.fixture(scope="module")
def states(folders) -> dict[str, dict[str, torch.Tensor]]:
    return {name: read_state(folder) for name, folder in folders.items()}


def merged(name: str, folders: dict[str, Path], out: Path) -> dict[str, torch.Tensor]:
    filled = {
        key: folder
        for key, folder in folders.items()
        if key != "ancestor" or name.endswith("ancestor")
    }
    merge_checkpoints(name, out, models=filled)
    return read_state(out)


def test_the_seven_settings_are_there_and_each_names_itself_and_the_audit():
    known = named_recipes()
    ancestors = [
        f"{name}-ancestor" for name in SEVEN if name not in ("audit-95-5", "audit-uniform")
    ]
    assert list(known) == sorted([*SEVEN, *ancestors])
    for name, path in known.items():
        text = path.read_text()
        assert "arXiv:2609.00746" in text
        assert f"\nname: {name}\n" in text


@pytest.mark.parametrize("name", sorted(named_recipes()))
def test_runs_and_leaves_what_is_not_language_alone(name, folders, states, tmp_path):
    out = merged(name, folders, tmp_path / "out")
    vlm = states["vlm"]
    assert out.keys() == vlm.keys()
    for key in vlm:
        if not key.startswith(INSIDE):
            assert torch.equal(out[key], vlm[key])
    identity = name in ("audit-task-arithmetic-1", "audit-tsv-1")
    close = torch.allclose(out[INSIDE + MATRIX], vlm[INSIDE + MATRIX], atol=1e-5)
    assert close == identity, "one task vector at full length is the VLM; nothing else is"


@pytest.mark.parametrize(("name", "share"), [("audit-95-5", 0.95), ("audit-uniform", 0.5)])
def test_the_averages(name, share, folders, states, tmp_path):
    out = merged(name, folders, tmp_path / "out")
    vlm, reference = states["vlm"][INSIDE + MATRIX], states["reference"][MATRIX]
    expected = share * vlm + (1 - share) * reference
    torch.testing.assert_close(out[INSIDE + MATRIX], expected)


def test_what_the_sparse_ones_keep_of_a_task_vector(folders, states, tmp_path):
    start, vlm = states["reference"][MATRIX], states["vlm"][INSIDE + MATRIX]
    moves = {
        name: merged(name, folders, tmp_path / name)[INSIDE + MATRIX] - start
        for name in ("audit-ties-0.2", "audit-dare-0.9", "audit-star-40")
    }
    ties = moves["audit-ties-0.2"]
    kept = ties != 0
    assert int(kept.sum()) == int(0.2 * kept.numel())
    torch.testing.assert_close(ties[kept], (vlm - start)[kept])
    dare = moves["audit-dare-0.9"]
    kept = dare != 0
    assert 1 <= int(kept.sum()) <= 30, "about a tenth of 128"
    torch.testing.assert_close(dare[kept], 10 * (vlm - start)[kept], rtol=1e-4, atol=1e-5)
    star = np.linalg.svd(moves["audit-star-40"].numpy(), compute_uv=False)
    whole = np.linalg.svd((vlm - start).numpy(), compute_uv=False)
    rank = int(np.searchsorted(np.cumsum(whole) / whole.sum(), 0.4)) + 1
    assert int((star > 1e-4).sum()) == rank
    np.testing.assert_allclose(star.sum(), whole.sum(), rtol=1e-4)


def test_with_an_ancestor_two_task_vectors_are_summed(folders, states, tmp_path):
    out = merged("audit-task-arithmetic-1-ancestor", folders, tmp_path / "out")
    vlm, reference, start = (
        states["vlm"][INSIDE + NORM],
        states["reference"][NORM],
        states["ancestor"][NORM],
    )
    torch.testing.assert_close(out[INSIDE + NORM], vlm + reference - start)


def test_a_placeholder_left_open_is_told():
    with pytest.raises(MixlabError, match="'reference' stands for a folder"):
        load_recipe("audit-ties-0.2", models={"vlm": "a"})
