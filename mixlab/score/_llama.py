"""Llama's own layers, run for scoring: no masks for prompts, no work that no answer needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from mixlab.score._engines import Embed, first_inputs, pad
from mixlab.score._room import RoomyLayer


def serves(lm: Any) -> bool:
    """Whether `lm` is exactly a Llama of transformers whose attention is plain."""
    from transformers import LlamaForCausalLM

    rope = getattr(lm.config, "rope_parameters", None) or {}
    return type(lm) is LlamaForCausalLM and "dynamic" not in str(rope.get("rope_type", "default"))


class PaddedRight:
    """A Llama batch whose prompts begin together.

    Causal attention never looks right, so the prompt pass needs no mask for padding::

        prompt pass   a b c d      steps   a b c d | x y
                      a b . .              a b . . | x y    (dots hidden from x, y)

    In the last layer only a prompt's last token is asked for, which saves that layer's attention
    and MLP on all others. Weights are read from the modules at every call, so a merge in place
    is seen. Same numbers as the model's forward within rounding (a test says so).
    """

    def __init__(self, lm: Any, pad_id: int) -> None:
        self._lm = lm
        self._pad = pad_id
        self._layers = list(lm.model.layers)
        self._room = [RoomyLayer() for _ in self._layers]
        self._hidden: torch.Tensor | None = None
        self._next = torch.empty(0)

    def start(
        self, rows: Sequence[np.ndarray], images: Sequence[Any], embed: Embed | None
    ) -> torch.Tensor:
        """Read the prompts; logits [rows, vocabulary]."""
        model = self._lm.model
        ids, mask = pad(rows, self._pad, left=False, device=self._lm.device)
        inputs = first_inputs(ids, images, embed)
        x = inputs["inputs_embeds"] if "inputs_embeds" in inputs else model.embed_tokens(ids)
        self._next = torch.tensor([len(row) for row in rows], device=ids.device)
        if mask is not None:
            self._hidden = (mask == 0)[:, None, None]
        turns = model.rotary_emb(x, torch.arange(ids.shape[1], device=ids.device)[None])
        for layer, room in zip(self._layers[:-1], self._room, strict=False):
            q, k, v = self._project(layer, layer.input_layernorm(x), turns)
            room.update(k, v)
            grouped = q.shape[1] != k.shape[1]
            out = scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=layer.self_attn.scaling, enable_gqa=grouped
            )
            x = x + layer.self_attn.o_proj(out.transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        layer, room = self._layers[-1], self._room[-1]
        normed = layer.input_layernorm(x)
        _, k, v = self._project(layer, normed, turns, query=False)
        k, v = room.update(k, v)
        row = torch.arange(len(rows), device=ids.device)
        last = self._next - 1
        x, normed = x[row, last][:, None], normed[row, last][:, None]
        q, _, _ = self._project(layer, normed, self._turns(x, last), key=False)
        return self._logits(self._finish(layer, x, self._attend(layer, q, k, v)))

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read one token of every row, int64 [rows]; logits [rows, vocabulary]."""
        x = self._lm.model.embed_tokens(tokens)[:, None]
        turns = self._turns(x, self._next)
        self._next = self._next + 1
        if self._hidden is not None:
            seen = self._hidden.new_zeros(len(tokens), 1, 1, 1)
            self._hidden = torch.cat([self._hidden, seen], dim=-1)
        for layer, room in zip(self._layers, self._room, strict=True):
            q, k, v = self._project(layer, layer.input_layernorm(x), turns)
            k, v = room.update(k, v)
            x = self._finish(layer, x, self._attend(layer, q, k, v))
        return self._logits(x)

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows only, int64 [new rows]."""
        for room in self._room:
            room.batch_select_indices(rows)
        self._next = self._next[rows]
        self._hidden = None if self._hidden is None else self._hidden[rows]

    def _turns(self, x: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = self._lm.model.rotary_emb(x, positions[:, None])
        return cos, sin

    @staticmethod
    def _project(
        layer: Any,
        normed: torch.Tensor,
        turns: tuple[torch.Tensor, torch.Tensor],
        *,
        query: bool = True,
        key: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rotated queries and keys, and values, [rows, heads, tokens, head size] each."""
        attention = layer.self_attn
        shape = (*normed.shape[:2], -1, attention.head_dim)
        none = normed.new_empty(0)
        q = attention.q_proj(normed).view(shape).transpose(1, 2) if query else none
        k = attention.k_proj(normed).view(shape).transpose(1, 2) if key else none
        v = attention.v_proj(normed).view(shape).transpose(1, 2) if key else none
        cos, sin = (part[:, None] for part in turns)
        return _turn(q, cos, sin) if query else none, _turn(k, cos, sin) if key else none, v

    def _attend(
        self, layer: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """One query a row over all keys; query heads of one key head go side by side."""
        rows, heads, _, size = q.shape
        grouped = q.reshape(rows, k.shape[1], heads // k.shape[1], size)
        weight = torch.matmul(grouped, k.transpose(-1, -2)).mul_(layer.self_attn.scaling)
        if self._hidden is not None:
            weight.masked_fill_(self._hidden, torch.finfo(weight.dtype).min)
        weight = weight.softmax(-1, dtype=torch.float32).to(v.dtype)
        return torch.matmul(weight, v).reshape(rows, 1, heads * size)

    @staticmethod
    def _finish(layer: Any, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        x = x + layer.self_attn.o_proj(attended)
        result: torch.Tensor = x + layer.mlp(layer.post_attention_layernorm(x))
        return result

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._lm.lm_head(self._lm.model.norm(x[:, -1]))
        return logits


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin
