"""A causal LM around the decoder of a family that has no causal class of its own."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import torch
from torch import nn
from transformers import CONFIG_MAPPING, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from mixlab.spec import MixlabError

_FIELDS = {field.name for field in dataclasses.fields(CausalLMOutputWithPast)}


class BackboneConfig(PretrainedConfig):
    """A family's text config, the class of its decoder, and what stands between it and logits.

    What it has not itself (`vocab_size`, `hidden_size`, ...) it reads from the text config.

    Args:
        family: the text config, or its dict with `model_type`.
        decoder_class: name of the decoder's class in the family's own module of transformers.
        head_rows: rows of the output head; None for the text config's `vocab_size`.
        head_bias: whether the head has a bias.
        tie_word_embeddings: whether the head is the embedding.
        logit_factor: what the head's output is multiplied with.
        logit_softcap: bound of a tanh over the logits after that; None for none.
    """

    model_type = "mixlab_backbone"

    def __init__(
        self,
        family: PretrainedConfig | dict | None = None,
        decoder_class: str | None = None,
        head_rows: int | None = None,
        head_bias: bool = False,
        tie_word_embeddings: bool = False,
        logit_factor: float = 1.0,
        logit_softcap: float | None = None,
        **values: Any,
    ) -> None:
        if isinstance(family, dict):
            inside = dict(family)
            family = CONFIG_MAPPING[inside.pop("model_type")].from_dict(inside)
        self.family: Any = family
        self.decoder_class = decoder_class
        self.head_rows = head_rows
        self.head_bias = head_bias
        self.tie_word_embeddings = tie_word_embeddings
        self.logit_factor = logit_factor
        self.logit_softcap = logit_softcap
        super().__init__(**values)

    def __getattr__(self, name: str) -> Any:
        family = self.__dict__.get("family")
        if family is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(family, name)


class BackboneForCausalLM(PreTrainedModel, GenerationMixin):
    """The family's own decoder, and an output head."""

    config_class = BackboneConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: BackboneConfig) -> None:
        asked = getattr(config, "_attn_implementation_internal", None)
        if asked is not None:
            config.family._attn_implementation = asked
        super().__init__(config)
        cls = _decoder_class(config)
        self._is_stateful = getattr(cls, "_is_stateful", False)
        self._no_split_modules = cls._no_split_modules
        self.model = cls(config.family)
        table = self.model.get_input_embeddings()
        path = next(name for name, module in self.model.named_modules() if module is table)
        self._tied_weights_keys = {"lm_head.weight": f"model.{path}.weight"}
        rows = config.head_rows or config.family.vocab_size
        self.lm_head = nn.Linear(table.weight.shape[1], rows, bias=config.head_bias)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.model.set_input_embeddings(value)

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.lm_head = new_embeddings

    def get_decoder(self, modality: str | None = None) -> nn.Module:
        return self.model

    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """As in every causal LM of transformers; caches pass through to the decoder."""
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **{**kwargs, "return_dict": True},
        )
        hidden = outputs.last_hidden_state
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden[:, kept, :]) * self.config.logit_factor
        if self.config.logit_softcap is not None:
            logits = torch.tanh(logits / self.config.logit_softcap) * self.config.logit_softcap
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=logits.shape[-1])
        rest = {k: v for k, v in outputs.items() if k in _FIELDS and k not in ("loss", "logits")}
        return CausalLMOutputWithPast(loss=loss, logits=logits, **rest)


def _decoder_class(config: BackboneConfig) -> Any:
    """The decoder's class, looked for in transformers alone."""
    place = type(config.family).__module__
    if place.startswith("transformers.models."):
        package = place.rpartition(".")[0]
        module = importlib.import_module(place.replace(".configuration_", ".modeling_"))
        found = getattr(module, str(config.decoder_class), None)
        if isinstance(found, type) and issubclass(found, PreTrainedModel):
            return found
        place = package
    raise MixlabError(
        f"config.json: decoder_class {config.decoder_class!r} is no model in {place}; expected the "
        "decoder's class of the family in transformers"
    )
