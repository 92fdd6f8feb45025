import pytest
import torch
from tiny_vlms import FAMILIES

from mixlab.merge import MergePath
from mixlab.models import backbone_state, extract_backbone


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_the_path_over_a_vlm_ends_at_the_reference_and_leaves_vision_alone(name):
    family = FAMILIES[name]
    tied = family.ties[0]
    vlm, other = family.make(tied), family.make(tied, seed=1)
    reference = extract_backbone(other)
    ids = family.text_ids()
    text, seen = vlm(input_ids=ids).logits, family.features(vlm)
    with MergePath(backbone_state(vlm), backbone_state(reference)) as path:
        for alpha in (0, 0.5):
            path.set_alpha(alpha)
            assert all(a.equal(b) for a, b in zip(family.features(vlm), seen, strict=True))
        path.set_alpha(0)
        assert torch.equal(vlm(input_ids=ids).logits, other(input_ids=ids).logits)
    assert torch.equal(vlm(input_ids=ids).logits, text)
