import pytest

from mixlab.checkpoint import count_layers, language_prefix, tensor_place

CASES = {
    "model.layers.3.self_attn.q_proj.weight": (3, "attention", "model."),
    "model.layers.3.self_attn.q_norm.weight": (3, "norms", "model."),
    "model.layers.12.mlp.gate_proj.weight": (12, "mlp", "model."),
    "model.layers.0.post_attention_layernorm.weight": (0, "norms", "model."),
    "model.layers.1.block_sparse_moe.experts.4.w1.weight": (1, "mlp", "model."),
    "model.layers.1.block_sparse_moe.gate.weight": (1, "mlp", "model."),
    "model.layers.1.mlp.experts.gate_up_proj": (1, "mlp", "model."),
    "model.layers.1.feed_forward.w2.weight": (1, "mlp", "model."),
    "model.layers.1.linear_attn.in_proj_qkvz.weight": (1, "attention", "model."),
    "model.layers.1.mamba.in_proj.weight": (1, "other", "model."),
    "model.decoder.layers.5.fc1.weight": (5, "mlp", "model.decoder."),
    "model.decoder.layers.5.self_attn_layer_norm.bias": (5, "norms", "model.decoder."),
    "model.decoder.layers.5.final_layer_norm.bias": (5, "norms", "model.decoder."),
    "model.decoder.final_layer_norm.bias": (None, "final_norm", "model.decoder."),
    "model.decoder.embed_positions.weight": (None, "embeddings", "model.decoder."),
    "transformer.h.3.attn.c_attn.bias": (3, "attention", "transformer."),
    "transformer.h.3.ln_1.weight": (3, "norms", "transformer."),
    "transformer.h.3.self_attention.query_key_value.weight": (3, "attention", "transformer."),
    "transformer.blocks.2.norm_attn_norm.attn.Wqkv.weight": (2, "attention", "transformer."),
    "transformer.blocks.2.norm_attn_norm.norm_1.weight": (2, "norms", "transformer."),
    "transformer.wte.weight": (None, "embeddings", "transformer."),
    "transformer.ln_f.weight": (None, "final_norm", "transformer."),
    "gpt_neox.layers.7.attention.dense.weight": (7, "attention", "gpt_neox."),
    "output_projection.weight": (None, "lm_head", ""),
    "rwkv.blocks.0.pre_ln.weight": (0, "norms", "rwkv."),
    "model.layers.0.mlps.1.up_proj.weight": (0, "mlp", "model."),
    "embed_out.weight": (None, "lm_head", ""),
    "lm_head.weight": (None, "lm_head", ""),
    "h.0.mlp.c_fc.weight": (0, "mlp", ""),
    "model.norm.weight": (None, "final_norm", "model."),
    "model.embed_tokens.weight": (None, "embeddings", "model."),
    "model.language_model.layers.2.mlp.up_proj.weight": (2, "mlp", "model.language_model."),
    "language_model.model.layers.2.mlp.up_proj.weight": (2, "mlp", "language_model.model."),
    "language_model.lm_head.weight": (None, "lm_head", "language_model."),
    "language_model.output.weight": (None, "lm_head", "language_model."),
    "model.text_model.layers.2.mlp.up_proj.weight": (2, "mlp", "model.text_model."),
    "llm.model.layers.2.mlp.up_proj.weight": (2, "mlp", "llm.model."),
    "model.layers.2.mlp.vision_mlp.up_proj.weight": (2, "mlp", "model."),
    "model.language_model.layers.2.cross_attn.k_proj.weight": (
        2, "attention", "model.language_model.",
    ),
}  # fmt: skip
ELSEWHERE = [
    "visual.blocks.3.mlp.fc1.weight",
    "model.visual.blocks.3.attn.qkv.weight",
    "model.visual.merger.ln_q.weight",
    "model.visual.deepstack_merger_list.0.norm.weight",
    "model.vision_tower.vision_model.encoder.layers.3.mlp.fc2.bias",
    "vision_tower.vision_model.embeddings.patch_embedding.weight",
    "vpm.encoder.layers.3.self_attn.k_proj.weight",
    "audio_tower.layers.3.fc1.weight",
    "model.multi_modal_projector.linear_1.weight",
    "model.connector.modality_projection.proj.weight",
    "model.mm_projector.0.weight",
    "model.image_newline",
    "model.embed_vision.embedding.weight",
    "mlp1.0.weight",
    "mtp.layers.0.mlp.up_proj.weight",
    "score.weight",
    "model.gated_cross_attn_layers.0.input_layernorm.weight",
    "model.protein_encoder.model.encoder.layer.3.attention.self.query.weight",
    "model.vqmodel.encoder.down.0.block.1.norm1.weight",
    "model.rotary_emb.inv_freq",
]


@pytest.mark.parametrize("name", CASES)
def test_place(name):
    place = tensor_place(name)
    assert (place.layer, place.module, place.prefix) == CASES[name]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_towers_are_no_part_of_the_language_model(name):
    place = tensor_place(name)
    assert (place.layer, place.module) == (None, "other")


def test_layers_are_counted_in_the_language_model_alone():
    names = [f"visual.blocks.{i}.mlp.fc1.weight" for i in range(32)]
    names += [f"model.layers.{i}.mlp.up_proj.weight" for i in range(28)]
    names += ["mtp.layers.0.mlp.up_proj.weight", "draft.layers.60.mlp.up_proj.weight"]
    assert count_layers(names) == 28
    assert language_prefix(names) == "model."
    assert count_layers(["lm_head.weight"]) == 0
    assert language_prefix(["lm_head.weight"]) is None
