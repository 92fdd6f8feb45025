"""Classes of transformers for a config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


def model_class(config: PretrainedConfig, named: object = None) -> type[PreTrainedModel] | None:
    """The class for a config: one of the `named` architectures, or the auto classes' choice.

    An architecture counts where transformers has it and it is made for configs of this class. Of
    the auto classes, that for images and text is asked before that for text.
    """
    import transformers
    from transformers.models.auto import modeling_auto as auto

    for name in named if isinstance(named, list) else ():
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            of = getattr(found, "config_class", None)
            if isinstance(of, type) and isinstance(config, of):
                return found
    for mapping in (auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, auto.MODEL_FOR_CAUSAL_LM_MAPPING):
        if type(config) in mapping:
            return _first(mapping[type(config)])
    return None


def causal_class(config_class: type) -> type[PreTrainedModel] | None:
    """The causal LM that transformers has for a class of configs."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as MAPPING

    return _first(MAPPING[config_class]) if config_class in MAPPING else None


def _first(found: Any) -> type[PreTrainedModel]:
    one: type[PreTrainedModel] = found[0] if isinstance(found, tuple) else found
    return one
