import pytest
import transformers as hf
from tiny_pair import text_config, write_pair

from mixlab.models import check_pair, load_model
from mixlab.spec import MixlabError


def test_a_pair_that_fits_counts_its_rows(vlm, reference):
    report = check_pair(vlm, reference)
    assert (report.shared_rows, report.vlm_only_rows) == (262, 0)


def test_a_longer_vocabulary_of_the_vlm_fits_and_a_shorter_does_not(tmp_path):
    reference, vlm = map(load_model, write_pair(tmp_path / "a", vlm_text={"vocab_size": 270}))
    assert check_pair(vlm, reference).vlm_only_rows == 8
    reference, vlm = map(
        load_model, write_pair(tmp_path / "b", vlm_text={"vocab_size": 264}, vocab_size=270)
    )
    with pytest.raises(MixlabError, match=r"embed_tokens.weight: backbone \[264, 32\], reference"):
        check_pair(vlm, reference)


def test_all_differences_are_listed_at_once(vlm):
    other = hf.LlamaForCausalLM(
        text_config(
            num_hidden_layers=3,
            num_key_value_heads=4,
            hidden_act="gelu",
            rms_norm_eps=1e-5,
            tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        )
    )
    with pytest.raises(MixlabError) as error:
        check_pair(vlm, other)
    text = str(error.value)
    for part in (
        "num_hidden_layers: backbone 2, reference 3",
        "num_key_value_heads: backbone 2, reference 4",
        "hidden_act: backbone silu, reference gelu",
        "rms_norm_eps: backbone 1e-06, reference 1e-05",
        "rope: backbone",
        "tensor model.layers.2.mlp.up_proj.weight: only the reference has it",
        "tensor model.layers.0.self_attn.k_proj.weight: backbone [16, 32], reference [32, 32]",
        "lm_head: backbone tied to the embedding, reference separate",
        "Choose the LM",
    ):
        assert part in text


def test_moved_tokens_are_a_difference(vlm, reference):
    tokenizer = reference.encoder.tokenizer
    tokenizer.add_tokens(["new"])
    rows = [t for t in tokenizer.get_vocab() if tokenizer.get_vocab()[t] >= 262]
    assert rows == ["new"]
    # A token beyond the reference's rows has no weights, so it cannot differ.
    assert check_pair(vlm, reference).shared_rows == 262
    vocabulary = dict(tokenizer.get_vocab())
    vocabulary["<user>"], vocabulary["<pad>"] = vocabulary["<pad>"], vocabulary["<user>"]
    tokenizer.get_vocab = lambda: vocabulary
    with pytest.raises(MixlabError, match=r"2 of the reference's 263 tokens .* first '<user>'"):
        check_pair(vlm, reference)
