"""Make transformers' auto classes know the LM of a decoder that has no causal class."""

from __future__ import annotations

import sys


def register() -> None:
    """Register `BackboneForCausalLM` with `AutoConfig` and `AutoModelForCausalLM`; once is enough.

    Done when `mixlab.models` is imported after transformers' auto classes, and by all that loads
    or makes a model here. Who imports transformers later calls it before `from_pretrained`.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    from mixlab.models.backbone._lm import BackboneConfig, BackboneForCausalLM

    AutoConfig.register(BackboneConfig.model_type, BackboneConfig, exist_ok=True)
    AutoModelForCausalLM.register(BackboneConfig, BackboneForCausalLM, exist_ok=True)


def register_if_loaded() -> None:
    """Register where transformers' auto classes are in memory already: importing them is slow."""
    if "transformers.models.auto.modeling_auto" in sys.modules:
        register()
