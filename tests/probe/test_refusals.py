"""What lineage refuses: the message says what was found, what was expected, how to mend it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_checkpoints import write_model

from mixlab import MixlabError
from mixlab.probe import find_lineage


def _packed(state: dict[str, torch.Tensor]) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    state[name] = torch.zeros_like(state[name], dtype=torch.uint8)


def _broken(state: dict[str, torch.Tensor]) -> None:
    state["model.layers.1.mlp.up_proj.weight"][2, 3] = torch.nan


def _quantised(folder: Path) -> Path:
    return write_model(folder, config={"quantization_config": {"quant_method": "gptq"}})


def _no_config(folder: Path) -> Path:
    (write_model(folder) / "config.json").unlink()
    return folder


def _cut(folder: Path) -> Path:
    file = write_model(folder) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-40])
    return folder


def _no_blocks(folder: Path) -> Path:
    def only_embeddings(state: dict[str, torch.Tensor]) -> None:
        for name in [n for n in state if "layers" in n]:
            del state[name]

    return write_model(folder, change=only_embeddings)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda f: write_model(f, width=16), "hidden_size: 8 and 16"),
        (lambda f: write_model(f, layers=3), "blocks: 2 and 3"),
        (lambda f: write_model(f, change=_packed), "U8"),
        (lambda f: write_model(f, change=_broken), "up_proj.weight holds NaN or infinity"),
        (_quantised, "gptq"),
        (_no_config, "no config.json"),
        (_cut, "copy or download the file again"),
        (_no_blocks, "18 tensors of its language model are not in the files"),
        (lambda f: f / "missing", "no such model folder"),
    ],
)
def test_refused(tmp_path: Path, make: Callable[[Path], Path], told: str) -> None:
    vlm = write_model(tmp_path / "vlm", layout="qwen3_vl")
    with pytest.raises(MixlabError) as caught:
        find_lineage(vlm, [make(tmp_path / "other")])
    assert told in str(caught.value)


def test_all_differences_of_size_at_once(tmp_path: Path) -> None:
    vlm = write_model(tmp_path / "vlm", layout="llava")
    other = write_model(tmp_path / "other", width=16, layers=3)
    with pytest.raises(MixlabError) as caught:
        find_lineage(vlm, [other])
    for told in ("blocks: 2 and 3", "hidden_size: 8 and 16", "intermediate_size: 16 and 32"):
        assert told in str(caught.value)
    assert str(vlm) in str(caught.value)
    assert str(other) in str(caught.value)


def test_more_rows_on_either_side_are_no_hindrance(tmp_path: Path) -> None:
    def longer(state: dict[str, torch.Tensor]) -> None:
        for name in [n for n in state if "embed_tokens" in n or "lm_head" in n]:
            state[name] = torch.cat([state[name], torch.ones(3, state[name].shape[1])])

    plain = write_model(tmp_path / "lm")
    padded = write_model(tmp_path / "padded", change=longer)
    for vlm, change in (("vlm", None), ("vlm-padded", longer)):
        # One seed draws the same numbers in all layouts of the language model.
        folder = write_model(tmp_path / vlm, layout="qwen3_vl", change=change)
        for verdict in find_lineage(folder, [plain, padded]).verdicts:
            assert (verdict.verdict, verdict.evidence.rows_identical) == (
                ("ancestor", 14) if change and verdict.reference == padded else ("ancestor", 11)
            )


def test_json_is_json(tmp_path: Path) -> None:
    vlm = write_model(tmp_path / "vlm", layout="llava")
    others = [write_model(tmp_path / name, seed=seed) for seed, name in enumerate(("a", "b"))]
    told = find_lineage(vlm, others).as_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
