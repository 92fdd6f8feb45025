"""What a family of the zoo is, and how its models get their random weights."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf

Names = tuple[tuple[str, str], ...]
State = dict[str, torch.Tensor]
Shapes = dict[str, tuple[int, ...]]

VOCABULARY = 100
PAD, BOS, EOS, UNK = 0, 1, 2, 3
IMAGE, VIDEO, START, END, SPARE = 90, 91, 92, 93, 94
"""Ids from IMAGE on are kept out of texts."""

TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}
WINDOW = 6
"""A sliding window shorter than the texts, so that it shows in the logits."""


@dataclass(frozen=True)
class Family:
    """One family of VLMs, made small and random.

    Args:
        name: the family's name.
        model: class name of the VLM in transformers.
        config: the VLM's config, given whether embeddings and head are tied.
        natural: class name of the causal LM that its text model was tuned from; None where
            transformers has no class that computes the same function.
        natural_config: that LM's config from the VLM's, by hand.
        inputs: keyword arguments of the VLM's forward with one image in the prompt.
        names: (pattern, replacement) that turn a name in the VLM's state dict into one in the
            natural LM's; a name that no pattern matches is no part of the language model.
        convert: what is more than renaming in that, on the renamed state.
        hub: (pattern, replacement) from the state dict to the names that repositories of the
            hub have; None where they are the same.
        hub_convert: what is more than renaming in that.
        hub_config: config.json as repositories of the hub have it, from the VLM's own.
        differs: why the natural LM's logits are not the VLM's, where they are not.
        adjust: what turns the natural LM's logits into the VLM's then.
        ties: which of (tied, untied) the family builds.
    """

    name: str
    model: str
    config: Callable[[bool], hf.PretrainedConfig]
    natural: str | None
    natural_config: Callable[[hf.PretrainedConfig], hf.PretrainedConfig] | None
    inputs: Callable[[hf.PreTrainedModel], dict[str, torch.Tensor]]
    names: Names = ((r"^model\.language_model\.", "model."), (r"^lm_head\.", "lm_head."))
    convert: Callable[[State, hf.PretrainedConfig], State] | None = None
    hub: Names | None = None
    hub_convert: Callable[[State], State] | None = None
    hub_config: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    differs: str = ""
    adjust: Callable[[torch.Tensor], torch.Tensor] | None = None
    ties: tuple[bool, ...] = field(default=(True, False))

    def shapes(self, tied: bool = False) -> tuple[Shapes, Shapes]:
        """Names and shapes of the VLM's state dict and of its natural LM's, without weights."""
        config = self.config(tied)
        assert self.natural is not None
        assert self.natural_config is not None
        with torch.device("meta"):
            vlm = getattr(hf, self.model)(config)
            lm = getattr(hf, self.natural)(self.natural_config(config))
        read = [{n: tuple(t.shape) for n, t in m.state_dict().items()} for m in (vlm, lm)]
        return read[0], read[1]

    def make(self, tied: bool = False, seed: int = 0) -> hf.PreTrainedModel:
        """A random VLM in float32, in eval mode."""
        return build(getattr(hf, self.model), self.config(tied), seed)

    def reference(self, vlm: hf.PreTrainedModel, seed: int = 1) -> hf.PreTrainedModel:
        """A random LM of the natural class, with the VLM's text shapes."""
        assert self.natural is not None
        assert self.natural_config is not None
        return build(getattr(hf, self.natural), self.natural_config(vlm.config), seed)

    def natural_name(self, name: str) -> str | None:
        """The natural LM's name for one of the VLM's tensors, before what `convert` changes."""
        for pattern, replacement in self.names:
            if re.search(pattern, name):
                return re.sub(pattern, replacement, name)
        return None

    def natural_state(self, vlm: hf.PreTrainedModel) -> State:
        """The VLM's language model under the natural LM's names, the tensors themselves."""
        state = {}
        for name, tensor in vlm.state_dict().items():
            plain = self.natural_name(name)
            if plain is not None:
                state[plain] = tensor
        return state if self.convert is None else self.convert(state, vlm.config)

    @staticmethod
    def text_ids(seed: int = 0) -> torch.Tensor:
        """Two texts of 12 tokens without special ones."""
        draw = torch.Generator().manual_seed(seed)
        return torch.randint(UNK + 1, IMAGE, (2, 12), generator=draw)

    def image_inputs(self, vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
        """Keyword arguments of the VLM's forward: a prompt with one image in it."""
        return self.inputs(vlm)

    def features(self, vlm: hf.PreTrainedModel) -> list[torch.Tensor]:
        """What the language model is given of the image, at every layer that is given some."""
        inputs = self.inputs(vlm)
        look = getattr(vlm, "get_image_features", None)
        look = look or getattr(vlm.model, "get_image_features", None)
        if look is None:
            seen = {k: inputs[k] for k in ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask")}
            hidden = vlm.model.vision_model(**seen).last_hidden_state
            return [vlm.model.multi_modal_projector(hidden)]
        known = inspect.signature(look).parameters
        out = look(**{name: value for name, value in inputs.items() if name in known})
        parts = [out.get("pooler_output"), out.get("deepstack_features")]
        return tensors(parts) or tensors(out.last_hidden_state)

    def hub_layout(self, state: Mapping[str, torch.Tensor]) -> State | None:
        """A state dict under the names that repositories of the hub have."""
        if self.hub is None and self.hub_convert is None:
            return None
        renamed = {rename(name, self.hub or ()): tensor for name, tensor in state.items()}
        return renamed if self.hub_convert is None else self.hub_convert(renamed)


def tensors(parts: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, in order."""
    if torch.is_tensor(parts):
        return [parts]
    return [tensor for part in parts or () for tensor in tensors(part)]


def rename(name: str, patterns: Names) -> str:
    """The name with every pattern replaced, in order."""
    for pattern, replacement in patterns:
        name = re.sub(pattern, replacement, name)
    return name


def build(cls: type, config: hf.PretrainedConfig, seed: int) -> hf.PreTrainedModel:
    """A model whose every saved number is random, vectors near their initial value."""
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = cls(config).float().eval()
    done = set()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point() and tensor.data_ptr() not in done:
                done.add(tensor.data_ptr())
                noise = torch.randn(tensor.shape) * 0.2
                tensor.copy_(tensor + noise if tensor.dim() < 2 else noise)
    return model


def prompt(images: int, image: int = IMAGE, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    """A prompt of text, an image of so many tokens between its marks, and text."""
    ids = [BOS, 10, 11, START, *[image] * images, END, 12, 13, 14]
    input_ids = torch.tensor([ids])
    return {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids), **more}


def pixels(*shape: int) -> torch.Tensor:
    """A random picture."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def four(vlm: hf.PreTrainedModel) -> dict[str, torch.Tensor]:
    """A picture of 16 x 16 that becomes four tokens."""
    return prompt(4, pixel_values=pixels(1, 3, 16, 16))


def text(kind: str, tied: bool, **more: object) -> dict[str, Any]:
    """A text config of a stand-alone kind."""
    return {**TEXT, "model_type": kind, "tie_word_embeddings": tied, **more}


def from_text(
    cls: str, fields: tuple[str, ...], **more: object
) -> Callable[[hf.PretrainedConfig], hf.PretrainedConfig]:
    """A natural config with these fields of the VLM's text config, and what is given."""

    def natural(config: hf.PretrainedConfig) -> hf.PretrainedConfig:
        kept = {name: getattr(config.text_config, name) for name in fields}
        given = {"tie_word_embeddings": config.tie_word_embeddings, **more}
        return getattr(hf, cls)(**kept, **given)

    return natural


def same_text(name: str) -> Callable[[hf.PretrainedConfig], hf.PretrainedConfig]:
    """A natural config whose class is the text config's own: a copy with the VLM's tie."""

    def natural(config: hf.PretrainedConfig) -> hf.PretrainedConfig:
        assert type(config.text_config).__name__ == name
        text = copy.deepcopy(config.text_config)
        text.tie_word_embeddings = config.tie_word_embeddings
        return text

    return natural
