import json
import shutil

import pytest
import torch

from mixlab.checkpoint import digest_folder
from mixlab.models import load_encoder, load_model, save_model_folder
from mixlab.spec import MixlabError


def test_digests_do_not_depend_on_the_way(folders, vlm, reference):
    assert reference.weights_digest() == reference.backbone_digest() == digest_folder(folders[0])
    assert vlm.backbone_digest() != vlm.weights_digest()
    assert (vlm.kind, reference.kind) == ("vlm", "lm")
    assert not vlm.model.training


def test_the_backbone_digest_is_that_of_the_lm_alone(vlm, reference):
    with torch.no_grad():
        for name, tensor in vlm.backbone_state().items():
            tensor.copy_(reference.backbone_state()[name])
    assert vlm.backbone_digest() == reference.backbone_digest()


def test_a_saved_folder_is_complete(folders, vlm, tmp_path):
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    with torch.no_grad():
        vlm.model.lm_head.weight.add_(1)
    saved = save_model_folder(vlm.model, tmp_path / "saved", folders[1])
    again = load_model(saved)
    assert again.weights_digest() == vlm.weights_digest()
    assert again.encoder.digest == vlm.encoder.digest
    _, info = AutoModelForImageTextToText.from_pretrained(saved, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert AutoTokenizer.from_pretrained(saved).chat_template
    assert {p.name for p in folders[1].iterdir()} == {p.name for p in saved.iterdir()}


def test_bad_folders_are_named(folders, tmp_path):
    with pytest.raises(MixlabError, match="no such model folder"):
        load_model(tmp_path / "none")
    with pytest.raises(MixlabError, match=r"no config\.json"):
        load_model(tmp_path)
    folder = shutil.copytree(folders[0], tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(MixlabError, match=r"model\.safetensors.*truncated"):
        load_model(folder)


def test_weights_of_another_shape_are_refused(folders, tmp_path):
    folder = shutil.copytree(folders[0], tmp_path / "deep")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(MixlabError, match="9 weights are missing"):
        load_model(folder)


def test_an_unknown_kind_of_model_is_refused(folders, tmp_path):
    folder = shutil.copytree(folders[0], tmp_path / "other")
    (folder / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(MixlabError, match="neither a causal language model"):
        load_model(folder)
    (folder / "config.json").write_text('{"model_type": "no-such-model"}')
    with pytest.raises(MixlabError, match="cannot be used"):
        load_encoder(folder)


def test_text_rows_of_another_family_work_and_its_images_are_refused(tmp_path):
    from PIL import Image
    from tiny_vlms import FAMILIES, write_vlm

    write_vlm(tmp_path, FAMILIES["qwen2-vl"], tied=True)
    loaded = load_model(tmp_path)
    assert loaded.kind == "vlm"
    assert "model.layers.1.self_attn.q_proj.bias" in loaded.backbone_state()
    assert len(loaded.encoder.encode_prompt("hi").input_ids) > 0
    with pytest.raises(MixlabError, match="'qwen2_vl' models are not supported yet"):
        loaded.encoder.encode_prompt("hi", Image.new("RGB", (8, 8)))


def test_a_hub_id_without_network_says_so(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MixlabError, match="give the path of a downloaded model folder"):
        load_model("nobody/no-such-model")
