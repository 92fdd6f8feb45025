import pytest
import torch
import transformers as hf
from tiny_families import SIGLIP, gemma3, llava, qwen2_vl, smolvlm
from tiny_pair import llava_config, text_config

from mixlab.checkpoint import digest_state
from mixlab.models import backbone_state, extract_backbone, splice_backbone
from mixlab.spec import MixlabError


@pytest.mark.parametrize(
    ("make", "tied", "expected"),
    [
        (llava, True, "LlamaForCausalLM"),
        (llava, False, "LlamaForCausalLM"),
        (qwen2_vl, True, "Qwen2ForCausalLM"),
        (qwen2_vl, False, "Qwen2ForCausalLM"),
        (smolvlm, False, "LlamaForCausalLM"),
        (gemma3, True, "Gemma3ForCausalLM"),
    ],
)
def test_text_logits_equal_the_vlms_and_weights_are_shared(make, tied, expected):
    torch.manual_seed(0)
    vlm = make(tied).eval()
    lm = extract_backbone(vlm)
    assert type(lm).__name__ == expected
    ids = torch.randint(10, 90, (2, 9))
    with torch.no_grad():
        difference = lm(input_ids=ids).logits - vlm(input_ids=ids).logits
    assert float(difference.abs().max()) <= 1e-5
    # The very same tensors, and every one of them.
    inside = {t.data_ptr() for t in vlm.state_dict().values()}
    assert {t.data_ptr() for t in lm.state_dict().values()} <= inside
    assert digest_state(lm.state_dict()) == digest_state(backbone_state(vlm))
    head, table = lm.lm_head.weight, lm.get_input_embeddings().weight
    assert (head.data_ptr() == table.data_ptr()) == tied


def test_splice_writes_the_backbone_and_nothing_else(vlm, reference):
    before = {n: t.clone() for n, t in vlm.model.state_dict().items()}
    splice_backbone(vlm.model, reference.model)
    assert vlm.backbone_digest() == reference.weights_digest()
    for name, tensor in vlm.model.state_dict().items():
        if "vision_tower" in name or "projector" in name:
            assert torch.equal(tensor, before[name])


def test_splice_after_extract_changes_no_byte(vlm):
    before = vlm.weights_digest()
    splice_backbone(vlm.model, extract_backbone(vlm.model))
    assert vlm.weights_digest() == before


def test_splice_keeps_the_vlms_own_rows():
    torch.manual_seed(0)
    vlm = hf.LlavaForConditionalGeneration(llava_config(text_config(vocab_size=270)))
    lm = hf.LlamaForCausalLM(text_config())
    kept = vlm.lm_head.weight[262:].clone()
    splice_backbone(vlm, lm)
    assert torch.equal(vlm.lm_head.weight[262:], kept)
    assert torch.equal(vlm.lm_head.weight[:262], lm.lm_head.weight)


def test_a_misfit_is_listed_whole_and_nothing_is_written(vlm):
    lm = hf.LlamaForCausalLM(text_config(num_hidden_layers=3, intermediate_size=48))
    before = vlm.weights_digest()
    with pytest.raises(MixlabError) as error:
        splice_backbone(vlm.model, lm)
    assert "model.layers.2.mlp.up_proj.weight: not in the VLM" in str(error.value)
    assert "model.layers.0.mlp.up_proj.weight: [48, 32]" in str(error.value)
    assert vlm.weights_digest() == before


def test_a_language_model_has_no_backbone_to_take_out(reference):
    with pytest.raises(MixlabError, match="is a language model already"):
        extract_backbone(reference.model)


@torch.no_grad()
def test_names_are_the_stand_alone_lms_where_its_decoder_stands_deeper():
    opt = {
        "model_type": "opt",
        "vocab_size": 100,
        "hidden_size": 32,
        "ffn_dim": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "word_embed_proj_dim": 32,
        "max_position_embeddings": 64,
    }
    qformer = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "encoder_hidden_size": 32,
    }
    config = hf.Blip2Config(text_config=opt, vision_config=SIGLIP, qformer_config=qformer)
    blip = hf.Blip2ForConditionalGeneration(config).eval()
    lm = extract_backbone(blip)
    assert "model.decoder.layers.0.fc1.weight" in backbone_state(blip)
    ids = torch.randint(10, 90, (2, 9))
    assert torch.equal(lm(input_ids=ids).logits, blip.language_model(input_ids=ids).logits)
