import pytest
import torch
from tiny_families import llava, qwen2_vl

from mixlab.merge import MergePath
from mixlab.models import backbone_state, extract_backbone


def features(vlm, pixels, **about) -> torch.Tensor:
    return torch.cat(list(vlm.get_image_features(pixels, return_dict=True, **about).pooler_output))


@pytest.mark.parametrize("make", [llava, qwen2_vl])
@torch.no_grad()
def test_the_path_over_a_vlm_ends_at_the_reference_and_leaves_vision_alone(make):
    torch.manual_seed(0)
    vlm, other = make(True).eval(), make(True).eval()
    reference = extract_backbone(other)
    ids = torch.randint(10, 90, (2, 7))
    if make is llava:
        look = (torch.randn(1, 3, 16, 16),)
        about = {}
    else:
        look = (torch.randn(16, 3 * 2 * 4 * 4),)
        about = {"image_grid_thw": torch.tensor([[1, 4, 4]])}
    text, seen = vlm(input_ids=ids).logits, features(vlm, *look, **about)
    with MergePath(backbone_state(vlm), backbone_state(reference)) as path:
        for alpha in (0, 0.5):
            path.set_alpha(alpha)
            assert torch.equal(features(vlm, *look, **about), seen)
        path.set_alpha(0)
        assert torch.equal(vlm(input_ids=ids).logits, reference(input_ids=ids).logits)
    assert torch.equal(vlm(input_ids=ids).logits, text)
