"""The VLM over a reference: the same language model, loadable as a pair."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mixlab.models import check_pair, load_model
from mixlab.testbed.settings import VisionSize
from mixlab.testbed.smollm2 import assembly
from mixlab.testbed.smollm2.vision import pictures
from mixlab.testbed.tower import make_tower

_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    words = [
        "<unk>",
        "<|im_start|>",
        "<|im_end|>",
        "\n",
        "a",
        "b",
        "c",
        "red",
        "circle",
        "empty",
        assembly.IMAGE,
    ]
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<unk>",
        additional_special_tokens=[assembly.IMAGE],
    )
    tokenizer.chat_template = _TEMPLATE
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=2,
        )
    ).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, model


@pytest.fixture(scope="module")
def vlm(reference):
    folder, model = reference
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tower = make_tower(VisionSize(hidden=32, intermediate=32, layers=1, heads=2), 0).eval()
    return assembly.assemble(model, tower, tokenizer, 0), tokenizer


def test_language_model_is_the_reference_and_head_stays_tied(reference, vlm):
    _, model = reference
    made, tokenizer = vlm
    ids = torch.tensor([[1, 4, 5, 6]])
    with torch.no_grad():
        wanted, found = model(ids).logits, made(input_ids=ids).logits
    assert torch.equal(found, wanted)
    table = made.get_input_embeddings().weight
    assert table.data_ptr() == made.lm_head.weight.data_ptr()
    assert made.config.image_token_id == tokenizer.convert_tokens_to_ids(assembly.IMAGE)


def test_saved_pair_loads_and_fits(reference, vlm, tmp_path):
    folder, _ = reference
    made, tokenizer = vlm
    assembly.save(made, tokenizer, tmp_path / "vlm")
    pair = load_model(tmp_path / "vlm"), load_model(folder)
    report = check_pair(*pair)
    assert report.vlm_only_rows == 0
    assert pair[0].backbone_digest() == pair[1].backbone_digest()
    scene, _ = pictures("train", 1, 0)[0]
    from random import Random

    from mixlab.testbed.pictures import draw_scene

    prompt = pair[0].encoder.encode_prompt("a b c", draw_scene(scene, Random(0)))
    assert (prompt.input_ids == tokenizer.convert_tokens_to_ids(assembly.IMAGE)).sum() == 9


def test_fitting_the_projector_moves_nothing_else(vlm):
    made, tokenizer = vlm
    before = {n: p.detach().clone() for n, p in made.named_parameters()}
    scenes = [scene for scene, _ in pictures("train", 12, 0)]
    assembly.align(made, tokenizer, scenes, 2, 0, lambda stage, share: None)
    moved = {n for n, p in made.named_parameters() if not torch.equal(p, before[n])}
    assert moved
    assert all("multi_modal_projector" in name for name in moved)
    assert all(p.requires_grad for p in made.parameters())
