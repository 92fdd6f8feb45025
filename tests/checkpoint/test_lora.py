"""An adapter read on top of its base equals PEFT's merge, and what is not handled is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mixlab.checkpoint import LoraSource, TensorEntry, read_header
from mixlab.spec import MixlabError

peft = pytest.importorskip("peft")
WIDTH, VOCAB = 16, 24


class Base:
    """A model.safetensors as a source, whole tensors only."""

    key = "base"

    def __init__(self, folder: Path) -> None:
        self.entries: dict[str, TensorEntry] = read_header(folder / "model.safetensors")
        self._state = load_file(folder / "model.safetensors")

    def streams(self, name: str) -> bool:
        return True

    def read(self, name: str) -> torch.Tensor:
        return self._state[name].clone()

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        data = self._state[name].reshape(-1).view(torch.uint8).numpy().data
        buffer[:] = data[start : start + len(buffer)]


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def _train(llama: Path, folder: Path, **settings: Any) -> dict[str, torch.Tensor]:
    """An adapter with random factors under `folder`; the weights that PEFT merges it into."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(llama)
    tuned = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter))
    tuned.save_pretrained(folder)
    return {k: v.clone() for k, v in tuned.merge_and_unload().state_dict().items()}


KINDS: dict[str, dict[str, Any]] = {
    "plain": {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "down_proj"]},
    "rslora": {"r": 4, "lora_alpha": 6, "use_rslora": True, "target_modules": ["k_proj"]},
    "patterns": {
        "r": 4,
        "lora_alpha": 6,
        "target_modules": ["q_proj", "v_proj", "up_proj"],
        "rank_pattern": {"q_proj": 2, "layers.1.mlp.up_proj": 3},
        "alpha_pattern": {r"layers\.0\.self_attn\.v_proj": 20},
    },
    "embeddings": {"r": 2, "lora_alpha": 8, "target_modules": ["embed_tokens", "o_proj"]},
    "saved whole": {
        "r": 2,
        "lora_alpha": 3,
        "target_modules": ["gate_proj"],
        "modules_to_save": ["lm_head", "norm"],
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_on_the_fly_is_what_peft_merges(kind: str, llama: Path, tmp_path: Path) -> None:
    merged = _train(llama, tmp_path / "adapter", **KINDS[kind])
    base = Base(llama)
    source = LoraSource(base, tmp_path / "adapter")
    assert source.entries == base.entries
    for name in source.entries:
        got = source.read(name)
        torch.testing.assert_close(got, merged[name], rtol=1e-6, atol=1e-6)
        changed = not torch.equal(merged[name], base.read(name))
        assert changed == (name in source.touched), name
        assert source.streams(name) != changed
        part = bytearray(12)
        source.read_into(name, memoryview(part), 8)
        assert bytes(part) == got.reshape(-1).view(torch.uint8).numpy().tobytes()[8:20]


def test_a_weight_stored_transposed_and_in_half_precision_is_rounded_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight = torch.randn(6, 10).bfloat16()  # (in, out), as GPT-2 stores it
    a, b = torch.randn(3, 6), torch.randn(10, 3)
    save_file({"h.0.c_attn.weight": weight}, tmp_path / "model.safetensors")
    key = "base_model.model.h.0.c_attn"
    _write(tmp_path, {f"{key}.lora_A.weight": a, f"{key}.lora_B.weight": b}, fan_in_fan_out=True)
    exact = weight.double() + 2.0 * (b.double() @ a.double()).T
    got = LoraSource(Base(tmp_path), tmp_path).read("h.0.c_attn.weight")
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), exact, rtol=2**-8, atol=1e-6)


def _write(folder: Path, tensors: dict[str, torch.Tensor], **config: Any) -> None:
    save_file(tensors, folder / "adapter_model.safetensors")
    about = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, **config}
    (folder / "adapter_config.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"peft_type": "IA3"}, "IA3"),
        ({"bias": "lora_only"}, "lora_only"),
        ({"init_lora_weights": "pissa_niter_4"}, "pissa"),
        ({"target_parameters": ["mlp.experts.gate_up_proj"]}, "target_parameters"),
        ({"r": 0}, "rank"),
        ({"r": 2}, "rank 2"),
        ({"lora_alpha": float("inf")}, "alpha must be a finite number"),
        ({"alpha_pattern": {"q": float("nan")}}, "alpha must be a finite number"),
    ],
)
def test_what_is_not_handled_is_named(config: dict[str, Any], word: str, tmp_path: Path) -> None:
    save_file({"q.weight": torch.zeros(5, 4)}, tmp_path / "model.safetensors")
    factors = {
        "base_model.model.q.lora_A.weight": torch.ones(3, 4),
        "base_model.model.q.lora_B.weight": torch.ones(5, 3),
    }
    _write(tmp_path, factors, **config)
    with pytest.raises(MixlabError, match=word):
        LoraSource(Base(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("tensors", "word"),
    [
        ({"q.lora_A.weight": (3, 4)}, "partner"),
        ({"q.lora_A.weight": (3, 7), "q.lora_B.weight": (5, 3)}, r"\[5, 7\].*\[5, 4\]"),
        ({"x.lora_A.weight": (3, 4), "x.lora_B.weight": (5, 3)}, "lacks"),
        ({"q.lora_magnitude_vector": (5,)}, "lora_magnitude_vector"),
        ({}, "no LoRA factors"),
    ],
)
def test_an_adapter_of_another_model_is_refused_at_opening(
    tensors: dict[str, tuple[int, ...]], word: str, tmp_path: Path
) -> None:
    save_file({"q.weight": torch.zeros(5, 4)}, tmp_path / "model.safetensors")
    _write(tmp_path, {f"base_model.model.{k}": torch.ones(s) for k, s in tensors.items()})
    with pytest.raises(MixlabError, match=word):
        LoraSource(Base(tmp_path), tmp_path)


def test_an_adapter_trained_in_memory_finds_a_vlm_whose_files_use_other_names(
    tmp_path: Path,
) -> None:
    name = "language_model.model.layers.0.mlp.up_proj"
    save_file({f"{name}.weight": torch.zeros(5, 4)}, tmp_path / "model.safetensors")
    key = "base_model.model.model.language_model.layers.0.mlp.up_proj"
    a, b = torch.randn(3, 4), torch.randn(5, 3)
    _write(tmp_path, {f"{key}.lora_A.weight": a, f"{key}.lora_B.weight": b})
    got = LoraSource(Base(tmp_path), tmp_path).read(f"{name}.weight")
    torch.testing.assert_close(got, 2 * b @ a)


def test_a_pickled_adapter_is_refused(tmp_path: Path) -> None:
    save_file({"q.weight": torch.zeros(5, 4)}, tmp_path / "model.safetensors")
    (tmp_path / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(MixlabError, match="pickled"):
        LoraSource(Base(tmp_path), tmp_path)
