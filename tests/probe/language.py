"""Synthetic languages, and tiny Llamas that are really trained on them, seconds each."""

from __future__ import annotations

import torch
from torch.nn.utils import parametrize
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY, WIDTH, INNER, LAYERS, LENGTH, BATCH = 160, 64, 160, 2, 32, 16
State = dict[str, torch.Tensor]


def config(vocabulary: int = VOCABULARY) -> LlamaConfig:
    """Of every planted language model; three blocks would change nothing but the time."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2 * LENGTH,
        tie_word_embeddings=True,
    )


class Language:
    """A Markov chain of order two over tokens: each pair is followed by few tokens of its own.

    Args:
        seed: of the chain; other seeds are other languages.
        words: tokens in use; the rest never occur.
    """

    def __init__(self, seed: int, words: int = VOCABULARY - 24) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.words = words
        self.next = torch.randint(0, words, (words, 8), generator=generator)
        self.twist = torch.randint(0, words, (words,), generator=generator)

    def batch(self, generator: torch.Generator) -> torch.Tensor:
        """Rows of LENGTH tokens, int64."""
        row = torch.randint(0, self.words, (BATCH,), generator=generator)
        before, rows = row, [row]
        for _ in range(LENGTH - 1):
            choice = torch.randint(0, 4, (BATCH,), generator=generator)
            choice = choice + 4 * (self.twist[before] % 2)
            before, row = row, self.next[row, choice]
            rows.append(row)
        return torch.stack(rows, 1)


def train(
    start: State | None,
    language: Language,
    *,
    steps: int,
    rate: float,
    seed: int,
    decay: float = 0.01,
    parts: str = "",
    vocabulary: int = VOCABULARY,
) -> State:
    """AdamW from `start`, or from random weights of `seed`, in float32.

    Args:
        parts: train only tensors whose name holds this.
    """
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config(vocabulary))
    if start is not None:
        model.load_state_dict({n: t.float() for n, t in start.items()}, strict=False)
        model.tie_weights()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parts in name)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=decay)
    generator = torch.Generator().manual_seed(seed + 1)
    for step in range(steps):
        tokens = language.batch(generator)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 10) * (1 - step / steps)
        model(input_ids=tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    state = model.state_dict()
    return {n: t.detach().clone() for n, t in state.items() if n != "lm_head.weight"}


class _Adapter(torch.nn.Module):
    """w + B A, as LoRA has it: A random, B zero at the start (arXiv:2106.09685)."""

    def __init__(self, weight: torch.Tensor, rank: int) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(rank, weight.shape[1]) / weight.shape[1] ** 0.5)
        self.b = torch.nn.Parameter(torch.zeros(weight.shape[0], rank))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.change()

    def change(self) -> torch.Tensor:
        return self.b @ self.a


def train_adapter(
    start: State, language: Language, *, rank: int, steps: int, rate: float, seed: int
) -> State:
    """Train adapters of all linear layers of the blocks; their changes B A, float32."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config())
    model.load_state_dict({n: t.float() for n, t in start.items()}, strict=False)
    model.tie_weights()
    model.requires_grad_(False)
    adapters = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and "layers" in name:
            adapters[f"{name}.weight"] = adapter = _Adapter(module.weight, rank)
            parametrize.register_parametrization(module, "weight", adapter)
    optimizer = torch.optim.AdamW([p for a in adapters.values() for p in a.parameters()], lr=rate)
    generator = torch.Generator().manual_seed(seed + 1)
    for _ in range(steps):
        tokens = language.batch(generator)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: adapter.change().detach() for name, adapter in adapters.items()}
