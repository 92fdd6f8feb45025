"""The stream against numpy over whole tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_checkpoints import LAYOUTS, make_state, write_model

from mixlab.probe import _reading as reading
from mixlab.probe import compare_weights


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    # Parts that end within rows, so that sums must join.
    monkeypatch.setattr("mixlab.probe._streaming.PART", 37)
    monkeypatch.setattr(reading, "PART", 41)
    return [
        write_model(tmp_path / "v", layout="llava", seed=1, shards=2),
        write_model(tmp_path / "a", seed=2),
        write_model(tmp_path / "b", seed=3, dtype=torch.bfloat16),
    ]


def _matrices(layout: str, **about: object) -> np.ndarray:
    """All elements of the blocks' matrices, float64."""
    state = make_state(layout=layout, **about)  # type: ignore[arg-type]
    body = LAYOUTS[layout][0]
    chosen = [t for n, t in state.items() if n.startswith(f"{body}layers") and t.ndim > 1]
    return torch.cat([t.double().flatten() for t in chosen]).numpy()


def _three() -> list[np.ndarray]:
    return [
        _matrices("llava", seed=1),
        _matrices("lm", seed=2),
        _matrices("lm", seed=3, dtype=torch.bfloat16),
    ]


def test_overall_is_numpys(three: list[Path]) -> None:
    table = compare_weights(three[0], three[1:]).table()
    v, *others = _three()
    for folder, r in zip(three[1:], others, strict=True):
        row = table[(table.reference == str(folder)) & (table.level == "overall")].iloc[0]
        assert row.elements == v.size
        assert row.distance == pytest.approx(np.linalg.norm(v - r) / np.linalg.norm(r), rel=1e-9)
        assert row.cosine == pytest.approx(v @ r / np.linalg.norm(v) / np.linalg.norm(r), abs=1e-9)
        assert row.identical == np.mean(v == r)


def test_corners_are_numpys(three: list[Path]) -> None:
    table = compare_weights(three[0], three[1:]).triangles().set_index("corner")
    v, a, b = _three()
    corners = {"vlm": (v, a, b), "first": (a, v, b), "second": (b, v, a)}
    for corner, (at, one, two) in corners.items():
        x, y = one - at, two - at
        expected = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        assert table.loc[corner, "cosine"] == pytest.approx(expected, abs=1e-9)


def test_every_backbone_tensor_has_a_row_and_no_other(three: list[Path]) -> None:
    table = compare_weights(three[0], three[1:2]).table()
    names = set(table[table.level == "tensor"].name)
    state = make_state(layout="llava")
    assert names == {n for n in state if n.startswith("language_model.")}
    assert sorted(table[table.level == "block"].layer) == [0, 1]
    assert set(table[table.level == "module"].name) == {"attention", "mlp"}


def test_rows_untouched_are_counted_by_token(tmp_path: Path) -> None:
    order = [3, 1, 0, 2, 4, 5, 6, 7, 8, 9, 10]

    def shuffle(state: dict[str, torch.Tensor]) -> None:
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            state[name] = state[name][order].contiguous()
        state["model.embed_tokens.weight"][7] += 1

    words = {f"w{i}": i for i in range(11)}
    a = write_model(tmp_path / "a", tokenizer=words)
    b = write_model(
        tmp_path / "b", change=shuffle, tokenizer={f"w{i}": at for at, i in enumerate(order)}
    )
    table = compare_weights(b, [a]).table().set_index("name")
    assert tuple(table.loc["model.embed_tokens.weight", ["rows", "rows_identical"]]) == (11, 10)
    assert tuple(table.loc["lm_head.weight", ["rows", "rows_identical"]]) == (11, 11)
    assert table.loc["lm_head.weight", "distance"] == 0
