"""The zoo itself: its natural references, images, folders and random numbers."""

from pathlib import Path

import pytest
import torch
from tiny_vlms import CASES, FAMILIES, GENERIC, write_vlm

ALL = {**FAMILIES, **GENERIC}
EVERY = [*CASES, *((name, False) for name in GENERIC)]
NATURAL = [(name, tied) for name, tied in EVERY if ALL[name].natural is not None]


@pytest.mark.parametrize(("name", "tied"), NATURAL)
@torch.no_grad()
def test_natural_reference_computes_the_vlm_s_text_function(name: str, tied: bool) -> None:
    family = ALL[name]
    vlm = family.make(tied)
    reference = family.reference(vlm)
    state = family.natural_state(vlm)
    if tied:
        state.pop("lm_head.weight")
    loaded = reference.load_state_dict(state, strict=False)
    assert (loaded.missing_keys, loaded.unexpected_keys) == (["lm_head.weight"] * tied, [])
    ids = family.text_ids()
    logits = reference(input_ids=ids).logits
    if family.adjust is not None:
        unlike = (vlm(input_ids=ids).logits - logits).abs().max()
        assert unlike > 1e-3, f"{name} differs no more: {family.differs}"
        logits = family.adjust(logits)
    assert (vlm(input_ids=ids).logits - logits).abs().max() < 1e-5


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_image_prompt_is_answered_by_the_image(name: str) -> None:
    family = FAMILIES[name]
    vlm = family.make(family.ties[0])
    inputs = family.image_inputs(vlm)
    seen = vlm(**inputs).logits
    other = vlm(**{**inputs, "pixel_values": inputs["pixel_values"] + 1}).logits
    assert seen.isfinite().all()
    assert (seen - other)[:, -1].abs().max() > 1e-3


@pytest.mark.parametrize("name", ALL)
def test_every_number_of_the_zoo_is_random_and_of_its_seed(name: str) -> None:
    family, tied = ALL[name], ALL[name].ties[-1]
    vlm, again, other = family.make(tied), family.make(tied), family.make(tied, 1)
    for key, tensor in vlm.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key])
        if tensor.is_floating_point():
            assert tensor.isfinite().all()
            assert not torch.equal(tensor, other.state_dict()[key]), key
            assert tensor.unique().numel() > tensor.numel() * 0.98, key


LAYOUTS = [
    (name, tied, layout)
    for name, tied in CASES
    for layout in ("saved", "hub", "memory")
    if tied == FAMILIES[name].ties[0] or layout == "hub"
]


@pytest.mark.parametrize(("name", "tied", "layout"), LAYOUTS)
def test_folders_of_every_layout_are_read_by_transformers(
    name: str, tied: bool, layout: str, tmp_path: Path
) -> None:
    family = FAMILIES[name]
    vlm = family.make(tied)
    folder = write_vlm(tmp_path / "vlm", family, layout, 1 + tied, vlm=vlm)
    again, info = type(vlm).from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    state = vlm.state_dict()
    assert {n for n, t in again.state_dict().items() if torch.equal(t, state[n])} == set(state)
    ids = family.text_ids()
    again.set_attn_implementation("eager")
    with torch.no_grad():
        assert torch.equal(again(input_ids=ids).logits, vlm(input_ids=ids).logits)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_features_are_of_the_image_and_of_vision_s_weights(name: str) -> None:
    family = FAMILIES[name]
    vlm, other = family.make(family.ties[0]), family.make(family.ties[0], 1)
    seen = family.features(vlm)
    assert seen
    assert all(a.equal(b) for a, b in zip(seen, family.features(vlm), strict=True))
    assert not any(a.equal(b) for a, b in zip(seen, family.features(other), strict=True))
