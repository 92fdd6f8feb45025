"""Layouts on disk against the backbone in memory, for every family and both namings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_vlms import CASES, FAMILIES, write_vlm

from mixlab.checkpoint import Checkpoint
from mixlab.models.backbone import extract_backbone
from mixlab.models.layout import lm_layout, open_layout, present
from mixlab.spec import MixlabError


@pytest.mark.parametrize("layout", ["saved", "hub", "memory"])
@pytest.mark.parametrize(("name", "tied"), CASES)
def test_a_folder_is_presented_as_the_lm_in_memory_is_saved_and_back(
    name: str, tied: bool, layout: str, tmp_path: Path
) -> None:
    family = FAMILIES[name]
    vlm = family.make(tied)
    write_vlm(tmp_path / "vlm", family, layout, vlm=vlm)
    lm = extract_backbone(vlm)
    lm.save_pretrained(tmp_path / "lm")
    with Checkpoint.open(tmp_path / "vlm") as one, Checkpoint.open(tmp_path / "lm") as other:
        here, like = open_layout(one), lm_layout(lm.config, type(lm))
        assert here.kind == "vlm"
        assert {n: e.shape for n, e in like.entries.items()} == {
            n: e.shape for n, e in other.entries.items()
        }
        out = present(one, here, like)
        assert out.entries.keys() == other.entries.keys()
        for tensor, entry in other.entries.items():
            made = out.read(tensor)
            assert made.shape == out.entries[tensor].shape
            # A VLM may have rows that its stand-alone LM has not.
            assert torch.equal(made[: entry.shape[0]], other.read(tensor)), tensor
            raw = bytearray(made.numel() * made.element_size())
            out.read_into(tensor, memoryview(raw), 0)
            assert bytes(raw) == made.numpy().tobytes()
        back = present(other, open_layout(other), here)
        for tensor in set(here.backbone) & back.entries.keys():
            made = back.read(tensor)
            assert torch.equal(made, one.read(tensor)[: made.shape[0]]), tensor
        lacking = set(here.backbone) - back.entries.keys()
        assert all("embedding" in tensor for tensor in lacking)


def test_two_names_for_one_tensor_are_refused_by_name(tmp_path: Path) -> None:
    write_vlm(tmp_path / "v", FAMILIES["llava"], "hub")
    file = tmp_path / "v" / "model.safetensors"
    state = load_file(file)
    name = "language_model.model.norm.weight"
    twice = "model.language_model.norm.weight"
    save_file(state | {twice: state[name].clone()}, file, {"format": "pt"})
    with Checkpoint.open(tmp_path / "v") as opened, pytest.raises(MixlabError) as caught:
        open_layout(opened)
    assert name in str(caught.value)
    assert twice in str(caught.value)
