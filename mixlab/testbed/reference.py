"""The reference language model: a small Llama, taught the world from nothing."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mixlab.testbed.batches import batches, code
from mixlab.testbed.fitting import Progress, answer_loss, fit, silent
from mixlab.testbed.lessons import Curriculum
from mixlab.testbed.settings import ReferenceSize

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 192


def make_reference(
    size: ReferenceSize, tokenizer: "PreTrainedTokenizerFast", seed: int
) -> "LlamaForCausalLM":
    """An untaught model whose generation settings stop at the tokenizer's end token."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


def teach(
    model: "LlamaForCausalLM",
    tokenizer: "PreTrainedTokenizerFast",
    curriculum: Curriculum,
    size: ReferenceSize,
    seed: int,
    progress: Progress = silent,
) -> float:
    """Train on fresh lessons, each seen once; returns the last loss in nats a token."""
    count = size.steps * size.batch_rows
    rows = code(tokenizer, list(curriculum.lessons(count, seed)))

    def losses() -> Iterator["torch.Tensor"]:
        for batch in batches(rows, size.batch_rows, tokenizer.pad_token_id, seed):
            yield answer_loss(model.model, model.lm_head, {"input_ids": batch.ids}, batch.labels)

    model.train()
    inner = {id(p): p for p in model.model.layers.parameters() if p.ndim == 2}
    loss = fit(
        [p for p in model.parameters() if id(p) not in inner],
        losses(),
        steps=size.steps,
        learning_rate=size.learning_rate,
        stage="reference",
        progress=progress,
        matrices=inner.values(),
        matrix_rate=size.matrix_rate,
    )
    model.eval()
    return loss
