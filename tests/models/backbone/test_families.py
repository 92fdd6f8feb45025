"""Every family of the zoo: its backbone is its natural reference, and goes back where it was."""

import pytest
import torch
from tiny_vlms import CASES, FAMILIES, GENERIC

from mixlab.checkpoint import digest_state
from mixlab.merge import MergePath
from mixlab.models import backbone_state, extract_backbone, splice_backbone

ALL = {**FAMILIES, **GENERIC}
EVERY = [*CASES, *((name, False) for name in GENERIC)]
NATURAL = [(name, tied) for name, tied in EVERY if ALL[name].natural is not None]
# Decoders that another family's class computes, though the zoo gives them no natural reference.
KIN = {"glm46v": "Glm4ForCausalLM"}


def vision(vlm):
    inside = {t.data_ptr() for t in backbone_state(vlm).values()}
    return {n: t.clone() for n, t in vlm.state_dict().items() if t.data_ptr() not in inside}


def same(before, after):
    return before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before)


@pytest.mark.parametrize(("name", "tied"), EVERY)
@torch.no_grad()
def test_backbone_computes_what_the_vlm_computes_on_text(name, tied):
    family = ALL[name]
    vlm = family.make(tied)
    # One family ties whatever its config says.
    tied = vlm.get_output_embeddings().weight is vlm.get_input_embeddings().weight
    lm = extract_backbone(vlm)
    natural = family.natural or KIN.get(name, "BackboneForCausalLM")
    assert type(lm).__name__ == natural
    ids = family.text_ids()
    assert (lm(input_ids=ids).logits - vlm(input_ids=ids).logits).abs().max() < 1e-5
    # The very tensors of the VLM, and the tie kept.
    inside = {t.untyped_storage().data_ptr() for t in vlm.state_dict().values()}
    assert {t.untyped_storage().data_ptr() for t in lm.state_dict().values()} <= inside
    head, table = lm.get_output_embeddings().weight, lm.get_input_embeddings().weight
    assert (head.data_ptr() == table.data_ptr()) == tied
    assert lm.config.tie_word_embeddings == tied


@pytest.mark.parametrize(("name", "tied"), EVERY)
def test_splice_after_extract_changes_no_byte(name, tied):
    vlm = ALL[name].make(tied)
    before = digest_state(vlm.state_dict())
    lm = extract_backbone(vlm, copy=True)
    inside = {t.untyped_storage().data_ptr() for t in vlm.state_dict().values()}
    assert not inside & {t.untyped_storage().data_ptr() for t in lm.state_dict().values()}
    with torch.no_grad():
        for tensor in backbone_state(vlm).values():
            if tensor.dim() < 2 or tensor.shape[0] == lm.get_output_embeddings().weight.shape[0]:
                tensor.zero_()
    assert digest_state(vlm.state_dict()) != before
    splice_backbone(vlm, lm)
    assert digest_state(vlm.state_dict()) == before


@pytest.mark.parametrize(("name", "tied"), NATURAL)
@torch.no_grad()
def test_splicing_the_reference_gives_its_logits_and_leaves_vision(name, tied):
    family = ALL[name]
    vlm = family.make(tied)
    reference = family.reference(vlm)
    before, ids = vision(vlm), family.text_ids()
    wanted = reference(input_ids=ids).logits
    splice_backbone(vlm, reference)
    assert same(before, vision(vlm))
    if family.adjust is not None:
        wanted = family.adjust(wanted)
    assert (vlm(input_ids=ids).logits - wanted).abs().max() < 2e-5
    again = extract_backbone(vlm, reference)
    assert type(again) is type(reference)
    assert digest_state(again.state_dict()) == digest_state(reference.state_dict())


@pytest.mark.parametrize(("name", "tied"), NATURAL)
def test_ends_of_alpha_are_the_reference_and_the_vlm_bit_for_bit(name, tied):
    family = ALL[name]
    vlm = family.make(tied)
    reference = family.reference(vlm)
    lm, whole = extract_backbone(vlm), digest_state(vlm.state_dict())
    wanted = {1.0: digest_state(lm.state_dict()), 0.0: digest_state(reference.state_dict())}
    with MergePath(backbone_state(lm), backbone_state(reference)) as path:
        for alpha, digest in wanted.items():
            path.set_alpha(alpha)
            assert digest_state(lm.state_dict()) == digest
    assert digest_state(vlm.state_dict()) == whole


@pytest.mark.parametrize("name", ["mllama", "molmo2-qwen3", "molmo2-olmo3"])
def test_rows_without_a_place_in_the_head_stay_with_the_vlm(name):
    vlm = FAMILIES[name].make()
    table, rows = vlm.get_input_embeddings().weight, vlm.config.text_config.vocab_size
    kept = table[rows:].clone()
    lm = extract_backbone(vlm)
    assert len(kept) == 8
    assert lm.get_input_embeddings().weight.shape[0] == rows
    assert lm.get_input_embeddings().weight.data_ptr() == table.data_ptr()
    with torch.no_grad():
        lm.get_input_embeddings().weight.fill_(3)
    splice_backbone(vlm, lm)
    assert torch.equal(table[rows:], kept)
    assert (table[:rows] == 3).all()
