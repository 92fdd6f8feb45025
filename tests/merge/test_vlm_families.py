"""Families of VLMs by check, on disk: merged with a reference, the backbone out and in again."""

from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from tiny_vlms import (
    FAMILIES,
    GENERIC,
    TOWERLESS,
    VOCABULARY,
    Family,
    build,
    write_model,
    write_reference,
    write_vlm,
)

from mixlab.merge import (
    extract_checkpoint,
    merge_checkpoints,
    pair_recipe,
    splice_checkpoint,
)
from mixlab.models.backbone import extract_backbone, register

CASES = [(name, layout) for name in FAMILIES for layout in ("saved", "hub")]


class Pair:
    """A VLM and a reference for it, in folders; tied in one layout, untied in the other."""

    def __init__(self, name: str, layout: str, folder: Path) -> None:
        self.family: Family = FAMILIES[name]
        tied = self.family.ties[0 if layout == "hub" else -1]
        self.vlm = self.family.make(tied)
        self.reference = self.family.reference(self.vlm)
        self.at = write_vlm(folder / "vlm", self.family, layout, 2, vlm=self.vlm)
        self.reference_at = write_reference(folder / "lm", self.family, vlm=self.vlm, tied=tied)
        self.out = folder / "out"

    def read(self) -> hf.PreTrainedModel:
        """The VLM that was written, which has all weights and no other."""
        return whole(type(self.vlm), self.out)

    def beside(self, vlm: hf.PreTrainedModel) -> list[str]:
        """Tensors that are no part of the language model and changed."""
        before, after = self.vlm.state_dict(), vlm.state_dict()
        apart = getattr(vlm.config.get_text_config(), "cross_attention_layers", None) or ()
        return [
            name
            for name, tensor in before.items()
            if (
                self.family.natural_name(name) is None
                or any(f"language_model.layers.{at}." in name for at in apart)
            )
            and not torch.equal(tensor, after[name])
        ]

    def image_rows(self, vlm: hf.PreTrainedModel) -> torch.Tensor:
        return vlm.get_input_embeddings().weight[VOCABULARY:]


def whole(cls: type, folder: Path) -> hf.PreTrainedModel:
    register()
    model, info = cls.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager"
    )
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model


def stored(folder: Path) -> dict[str, torch.Tensor]:
    found = {}
    for file in folder.glob("*.safetensors"):
        found |= load_file(file)
    return found


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return set(left) == set(right) and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(("name", "layout"), CASES[1::2])
@torch.no_grad()
def test_merged_half_way_every_tensor_is_between_and_vision_is_as_before(
    name: str, layout: str, tmp_path: Path
) -> None:
    pair = Pair(name, layout, tmp_path)
    merge_checkpoints(pair_recipe(pair.at, pair.reference_at, alpha=0.5), pair.out)
    merged = pair.read()
    mine, its = pair.family.natural_state(pair.vlm), pair.reference.state_dict()
    for key, tensor in pair.family.natural_state(merged).items():
        assert torch.allclose(tensor, (mine[key] + its[key]) / 2, rtol=0, atol=1e-6), key
    assert pair.beside(merged) == []
    assert torch.equal(pair.image_rows(merged), pair.image_rows(pair.vlm))
    seen, before = pair.family.features(merged), pair.family.features(pair.vlm)
    assert all(a.equal(b) for a, b in zip(seen, before, strict=True))
    assert merged(**pair.family.image_inputs(merged)).logits.isfinite().all()


@pytest.mark.parametrize(("name", "layout"), CASES[::2])
def test_ends_of_a_merge_are_the_vlm_and_the_reference_bit_for_bit(
    name: str, layout: str, tmp_path: Path
) -> None:
    pair = Pair(name, layout, tmp_path)
    merge_checkpoints(pair_recipe(pair.at, pair.reference_at, alpha=1.0), pair.out)
    assert same(stored(pair.out), stored(pair.at))
    pair.out = tmp_path / "other"
    merge_checkpoints(pair_recipe(pair.at, pair.reference_at, alpha=0.0), pair.out)
    merged = pair.read()
    assert same(pair.family.natural_state(merged), pair.reference.state_dict())
    assert pair.beside(merged) == []
    assert torch.equal(pair.image_rows(merged), pair.image_rows(pair.vlm))


@pytest.mark.parametrize(("name", "layout"), CASES)
@torch.no_grad()
def test_extracted_on_disk_it_is_what_memory_gives_and_back_in_no_byte_changes(
    name: str, layout: str, tmp_path: Path
) -> None:
    pair = Pair(name, layout, tmp_path)
    extract_checkpoint(pair.at, tmp_path / "taken", reference=pair.reference_at)
    taken = whole(hf.AutoModelForCausalLM, tmp_path / "taken")
    memory = extract_backbone(pair.vlm, pair.reference)
    assert type(taken) is type(memory)
    assert same(taken.state_dict(), memory.state_dict())
    ids = pair.family.text_ids()
    assert (taken(input_ids=ids).logits - pair.vlm(input_ids=ids).logits).abs().max() < 1e-5
    splice_checkpoint(pair.at, tmp_path / "taken", pair.out)
    assert same(stored(pair.out), stored(pair.at))
    write_model(tmp_path / "tuned", pair.family.reference(pair.vlm, 2))
    splice_checkpoint(pair.at, tmp_path / "tuned", tmp_path / "spliced")
    pair.out = tmp_path / "spliced"
    spliced = pair.read()
    tuned = pair.family.reference(pair.vlm, 2).state_dict()
    assert same(pair.family.natural_state(spliced), tuned)
    assert pair.beside(spliced) == []


@pytest.mark.parametrize("name", list(TOWERLESS))
@torch.no_grad()
def test_a_vlm_whose_tower_cannot_be_built_gives_its_language_model(
    name: str, tmp_path: Path
) -> None:
    lm = TOWERLESS[name].write(tmp_path / "vlm")
    extract_checkpoint(tmp_path / "vlm", tmp_path / "taken")
    taken = whole(hf.AutoModelForCausalLM, tmp_path / "taken")
    ids = Family.text_ids()
    assert (taken(input_ids=ids).logits - lm(input_ids=ids).logits).abs().max() < 1e-5
    splice_checkpoint(tmp_path / "vlm", tmp_path / "taken", tmp_path / "back")
    assert same(stored(tmp_path / "back"), stored(tmp_path / "vlm"))
    write_model(tmp_path / "lm", build(type(lm), lm.config, 3))
    merge_checkpoints(pair_recipe(tmp_path / "vlm", tmp_path / "lm", alpha=1.0), tmp_path / "whole")
    assert same(stored(tmp_path / "whole"), stored(tmp_path / "vlm"))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GENERIC))
@torch.no_grad()
def test_families_that_nobody_listed_go_out_and_in_and_are_merged(
    name: str, tmp_path: Path
) -> None:
    family = GENERIC[name]
    vlm, ids = family.make(), family.text_ids()
    write_vlm(tmp_path / "vlm", family, vlm=vlm)
    extract_checkpoint(tmp_path / "vlm", tmp_path / "taken")
    taken = whole(hf.AutoModelForCausalLM, tmp_path / "taken")
    assert (taken(input_ids=ids).logits - vlm(input_ids=ids).logits).abs().max() < 1e-5
    splice_checkpoint(tmp_path / "vlm", tmp_path / "taken", tmp_path / "back")
    assert same(stored(tmp_path / "back"), stored(tmp_path / "vlm"))
    if family.natural is None:
        return
    write_reference(tmp_path / "lm", family, vlm=vlm)
    merge_checkpoints(pair_recipe(tmp_path / "vlm", tmp_path / "lm", alpha=0.0), tmp_path / "out")
    merged = whole(type(vlm), tmp_path / "out")
    assert same(family.natural_state(merged), family.reference(vlm).state_dict())
