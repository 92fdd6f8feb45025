"""Every family on disk, in the layout of transformers 5 and in the hub's, held to memory."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import transformers as hf
from tiny_vlms import FAMILIES, Family, write_model, write_vlm

from merge.merging import same, state_of
from mixlab.merge import (
    MergePath,
    extract_checkpoint,
    merge_checkpoints,
    pair_recipe,
    splice_checkpoint,
)
from mixlab.models.backbone import (
    backbone_state,
    extract_backbone,
    register,
    splice_backbone,
)

# Tied in one layout, untied in the other.
CASES = [
    (name, family.ties[at], layout)
    for name, family in FAMILIES.items()
    for layout, at in (("saved", -1), ("hub", 0))
]
State = dict[str, torch.Tensor]


def load(cls: type, folder: Path) -> hf.PreTrainedModel:
    """Loaded by transformers, with no missing and no unexpected key."""
    register()
    model, info = cls.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    wrong = {kind: keys for kind, keys in info.items() if keys and kind.endswith("_keys")}
    assert not wrong, wrong
    return model.eval()


def load_vlm(family: Family, folder: Path) -> hf.PreTrainedModel:
    return load(getattr(hf, family.model), folder)


def bits(model: hf.PreTrainedModel) -> State:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(("name", "tied", "layout"), CASES)
@torch.no_grad()
def test_out_and_in_again(tmp_path: Path, name: str, tied: bool, layout: str) -> None:
    family = FAMILIES[name]
    vlm = family.make(tied)
    folder = write_vlm(tmp_path / "vlm", family, layout, shards=2, vlm=vlm)
    extract_checkpoint(folder, tmp_path / "lm", check="all", threads=1)
    lm = load(hf.AutoModelForCausalLM, tmp_path / "lm")
    ids = family.text_ids()
    assert (lm(input_ids=ids).logits - vlm(input_ids=ids).logits).abs().max() < 1e-5
    memory = extract_backbone(vlm)
    assert type(lm) is type(memory)
    assert same(bits(lm), bits(memory))
    splice_checkpoint(folder, tmp_path / "lm", tmp_path / "again", check="all", threads=1)
    assert same(state_of(tmp_path / "again"), state_of(folder))


@pytest.mark.parametrize(("name", "tied", "layout"), CASES)
@torch.no_grad()
def test_disk_and_memory_agree(tmp_path: Path, name: str, tied: bool, layout: str) -> None:
    family = FAMILIES[name]
    vlm, other = family.make(tied), family.make(tied, seed=1)
    folder = write_vlm(tmp_path / "vlm", family, layout, vlm=vlm)
    reference = extract_backbone(other, copy=True)
    lm = write_model(tmp_path / "lm", reference)

    splice_checkpoint(folder, lm, tmp_path / "spliced", threads=1)
    memory = splice_backbone(copy.deepcopy(vlm), reference)
    assert same(bits(load_vlm(family, tmp_path / "spliced")), bits(memory))

    for alpha in (0.0, 0.25, 1.0):
        out = tmp_path / str(alpha)
        merge_checkpoints(pair_recipe(folder, lm, alpha=alpha), out, threads=1)
        merged = load_vlm(family, out)
        memory = copy.deepcopy(vlm)
        with MergePath(backbone_state(memory), backbone_state(reference)) as path:
            path.set_alpha(alpha)
            assert same(bits(merged), bits(memory))
        if alpha == 1:
            assert same(state_of(out), state_of(folder))
        if alpha == 0.25:
            seen = zip(family.features(merged), family.features(vlm), strict=True)
            assert all(a.equal(b) for a, b in seen)
            assert merged(**family.image_inputs(merged)).logits.isfinite().all()
