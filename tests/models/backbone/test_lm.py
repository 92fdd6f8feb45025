"""Our LM around a family's decoder: saved, loaded, generated from, trained."""

import json
import subprocess
import sys

import pytest
import torch
import transformers as hf
from tiny_vlms import GENERIC

from mixlab.models import backbone_state, extract_backbone, splice_backbone
from mixlab.spec import MixlabError

NAMES = ["paddleocr_vl", "granite_docling", "cosmos3_edge"]


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_saved_and_loaded_by_transformers_own_classes(name, tmp_path):
    family = GENERIC[name]
    vlm = family.make()
    lm = extract_backbone(vlm)
    lm.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["architectures"] == ["BackboneForCausalLM"]
    assert written["family"]["model_type"] == vlm.config.text_config.model_type
    loaded, info = hf.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    ids = family.text_ids()
    wanted = vlm(input_ids=ids).logits
    assert torch.equal(loaded.eval()(input_ids=ids).logits, wanted)
    other = family.make(seed=1)
    splice_backbone(other, loaded)
    assert torch.equal(other(input_ids=ids).logits, wanted)


@torch.no_grad()
def test_a_backbone_can_be_taken_for_a_language_model(tmp_path):
    lm = extract_backbone(GENERIC["paddleocr_vl"].make())
    assert backbone_state(lm).keys() == lm.state_dict().keys()
    with pytest.raises(MixlabError, match="BackboneForCausalLM is a language model already"):
        extract_backbone(lm)
    ids = torch.tensor([[5, 6, 7, 8]])
    cached = lm.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=None)
    for at in range(4, 10):
        assert lm(input_ids=cached[:, :at]).logits[0, -1].argmax() == cached[0, at]


def test_loss_has_gradients_in_the_vlms_own_weights():
    vlm = GENERIC["granite_docling"].make()
    lm = extract_backbone(vlm)
    ids = GENERIC["granite_docling"].text_ids()
    lm(input_ids=ids, labels=ids).loss.backward()
    assert vlm.lm_head.weight is lm.lm_head.weight
    assert vlm.lm_head.weight.grad.abs().max() > 0


def test_importing_registers_where_transformers_is_in_memory():
    code = (
        "from transformers import AutoConfig, AutoModelForCausalLM\n"
        "import mixlab.models\n"
        "config = AutoConfig.for_model('mixlab_backbone')\n"
        "assert type(config) in AutoModelForCausalLM._model_mapping\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_config_that_names_no_decoder_of_transformers_is_refused(tmp_path):
    lm = extract_backbone(GENERIC["paddleocr_vl"].make())
    lm.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["decoder_class"] = "system"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(MixlabError, match="decoder_class 'system' is no model in transformers"):
        hf.AutoModelForCausalLM.from_pretrained(tmp_path)
