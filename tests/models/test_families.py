"""Families of VLMs by check: the backbone out, in again, merged, beside the zoo's own oracle."""

import copy
from pathlib import Path

import pytest
import torch
import transformers as hf
from tiny_vlms import CASES, FAMILIES, GENERIC, VOCABULARY, Family

from mixlab.merge import MergePath
from mixlab.models.backbone import (
    backbone_state,
    compare_configs,
    extract_backbone,
    register,
    splice_backbone,
)

ALL: dict[str, Family] = {**FAMILIES, **GENERIC}
EVERY = [*CASES, *((name, False) for name in GENERIC)]
ONCE = [(name, family.ties[-1]) for name, family in FAMILIES.items()]
SAME = [(name, tied) for name, tied in EVERY if ALL[name].natural is not None]


def backbone_names(family: Family, vlm: hf.PreTrainedModel) -> dict[str, str]:
    """The oracle: which of the VLM's tensors are its language model's."""
    names = {name: family.natural_name(name) for name in vlm.state_dict()}
    kept = {name: plain for name, plain in names.items() if plain is not None}
    apart = getattr(vlm.config.get_text_config(), "cross_attention_layers", None) or ()
    return {n: p for n, p in kept.items() if not any(f"layers.{at}." in n for at in apart)}


def digest(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {n: t.detach().numpy().tobytes() for n, t in tensors.items()}


@pytest.mark.parametrize(("name", "tied"), EVERY)
@torch.no_grad()
def test_text_logits_of_the_extracted_lm_are_the_vlm_s(
    name: str, tied: bool, tmp_path: Path
) -> None:
    family = ALL[name]
    vlm = family.make(tied)
    ids = family.text_ids()
    logits = vlm(input_ids=ids).logits
    lm = extract_backbone(vlm)
    assert (lm(input_ids=ids).logits - logits).abs().max() < 1e-5
    inside = {t.data_ptr() for t in vlm.state_dict().values()}
    assert {t.data_ptr() for t in lm.state_dict().values()} <= inside
    register()
    lm.save_pretrained(tmp_path)
    again, info = hf.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True, dtype=torch.float32, attn_implementation="eager"
    )
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (again(input_ids=ids).logits - logits).abs().max() < 1e-5


@pytest.mark.parametrize(("name", "tied"), SAME)
@torch.no_grad()
def test_backbone_is_written_in_the_reference_s_class(name: str, tied: bool) -> None:
    family = ALL[name]
    vlm = family.make(tied)
    reference = family.reference(vlm)
    lm = extract_backbone(vlm, reference)
    assert family.differs or type(lm) is type(reference)
    ids = family.text_ids()
    assert (lm(input_ids=ids).logits - vlm(input_ids=ids).logits).abs().max() < 1e-5
    oracle, state = family.natural_state(vlm), backbone_state(lm)
    assert set(state) == set(backbone_state(reference))
    for key, tensor in state.items():
        assert torch.equal(tensor, oracle[key][: len(tensor)]), key


@pytest.mark.parametrize(("name", "tied"), CASES)
@torch.no_grad()
def test_splice_writes_the_language_model_and_nothing_else(name: str, tied: bool) -> None:
    family = ALL[name]
    vlm, other = family.make(tied), family.make(tied, 1)
    before = digest(vlm.state_dict())
    splice_backbone(vlm, extract_backbone(vlm, copy=True))
    assert digest(vlm.state_dict()) == before
    splice_backbone(vlm, extract_backbone(other))
    ids = family.text_ids()
    assert torch.equal(vlm(input_ids=ids).logits, other(input_ids=ids).logits)
    mine = backbone_names(family, vlm)
    for key, data in digest(vlm.state_dict()).items():
        assert key in mine or data == before[key], key


@pytest.mark.parametrize(("name", "tied"), ONCE)
@torch.no_grad()
def test_merged_in_memory_it_answers_an_image_and_sees_as_before(name: str, tied: bool) -> None:
    family = FAMILIES[name]
    vlm, other = family.make(tied), family.make(tied, 1)
    seen = family.features(vlm)
    # The oracle: half of each, in the rows that a text model has; the image's own rows stay.
    oracle = copy.deepcopy(vlm)
    mine = backbone_names(family, vlm)
    for key, tensor in oracle.state_dict(keep_vars=True).items():
        if key in mine and not (tied and key.endswith("lm_head.weight")):
            rows = slice(VOCABULARY) if "embed_tokens" in key else slice(None)
            tensor.data[rows] = tensor.data[rows].lerp(other.state_dict()[key][rows], 0.5)
    reference = extract_backbone(other, copy=True)
    with MergePath(backbone_state(extract_backbone(vlm)), backbone_state(reference)) as path:
        path.set_alpha(0.5)
        assert all(a.equal(b) for a, b in zip(family.features(vlm), seen, strict=True))
        inputs = family.image_inputs(vlm)
        answer = vlm(**inputs).logits
        assert (answer - oracle(**inputs).logits).abs().max() < 1e-5
        brighter = {**inputs, "pixel_values": inputs["pixel_values"] + 1}
        assert (vlm(**brighter).logits - answer)[:, -1].abs().max() > 1e-3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_reference_of_the_same_shape_and_function_differs_in_the_image_s_positions_alone(
    name: str,
) -> None:
    family = FAMILIES[name]
    assert family.natural_config is not None
    config = family.config(family.ties[0])
    found = compare_configs(config, family.natural_config(config))
    assert {difference.kind for difference in found} <= {"function"}
    axes = "mrope_section" in (config.get_text_config().to_dict().get("rope_parameters") or {})
    # Two classes of VLMs leave out what the LM's own class does to the logits.
    left_out = {"aya-vision": ["logit_scale"], "gemma3-capped": ["final_logit_softcapping"]}
    wanted = ["mrope"] * axes + left_out.get(name, [])
    assert [difference.field for difference in found] == wanted


@pytest.mark.parametrize("name", FAMILIES)
def test_a_deeper_wider_reference_differs_in_every_size_at_once(name: str) -> None:
    family = FAMILIES[name]
    assert family.natural_config is not None
    config = family.config(False)
    other = family.natural_config(config)
    other.num_hidden_layers += 1
    other.hidden_size *= 2
    other.intermediate_size += 8
    found = compare_configs(config, other)
    sizes = {difference.field for difference in found if difference.kind == "size"}
    assert {"num_hidden_layers", "hidden_size", "intermediate_size"} <= sizes
