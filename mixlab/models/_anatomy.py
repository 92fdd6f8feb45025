"""Where the language model stands inside a model of transformers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlab.models._kin import renamed
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel

_BLOCK = re.compile(r"layers\.(\d+)\.")


@dataclass(frozen=True)
class Anatomy:
    """The language model's place in a model, whose weights may be on the meta device.

    A *backbone name* is a tensor's name in the stand-alone causal LM: as a rule `model.` and its
    name in the decoder, or `lm_head.` and its name in the output head. Blocks are counted as the
    stand-alone LM counts them.

    Args:
        decoder: path of the module with embeddings, blocks and final norm, without the head.
        head: path of the output head; None where the model has none.
        names: name in the model's state dict -> backbone name. What is not in it is no part of
            the language model. Tied weights stand under both names.
        blocks: the decoder's own numbers of the backbone's blocks, in order.
        vocabulary: backbone names whose first axis counts tokens.
    """

    decoder: str
    head: str | None
    names: Mapping[str, str]
    blocks: tuple[int, ...]
    vocabulary: frozenset[str]


def text_config(config: PretrainedConfig) -> PretrainedConfig:
    """The language model's part of a config; the config itself for a language model."""
    found = config.get_text_config(decoder=True)
    # Our LM around a family's decoder has that family's text config inside its own.
    return found.family if found.model_type == "mixlab_backbone" else found


def is_vlm(model: PreTrainedModel) -> bool:
    """Whether the model has a part beside its language model."""
    return model.config.get_text_config(decoder=True) is not model.config


def read_anatomy(model: PreTrainedModel) -> Anatomy:
    """Find the language model by the classes and accessors of transformers.

    Raises:
        MixlabError: there is no causal decoder that can be told from the rest.
    """
    decoder, head = _decoder(model), _head(model)
    paths = {id(module): path for path, module in model.named_modules()}
    path, head_path = paths[id(decoder)], None if head is None else paths[id(head)]
    blocks, text = _blocks(decoder), text_config(model.config)
    place = {block: at for at, block in enumerate(blocks)}
    stem, top = _stand_alone(model, path, head_path)
    names = {}
    for name in model.state_dict():
        if head_path is not None and name.startswith(f"{head_path}."):
            names[name] = top + name[len(head_path) :]
        elif name.startswith(f"{path}."):
            inside = name[len(path) + 1 :]
            block = _BLOCK.match(inside)
            if block is None:
                names[name] = f"{stem}.{inside}"
            elif int(block[1]) in place:
                inside = renamed(text, inside[block.end() :])
                names[name] = f"{stem}.layers.{place[int(block[1])]}.{inside}"
    tables = {f"{stem}.embed_tokens.weight", f"{top}.weight", f"{top}.bias"}
    table = decoder.get_input_embeddings()
    if table is not None:
        tables |= {f"{p}.weight" for p in _relative(decoder, table, stem)}
    return Anatomy(
        path, head_path, names, blocks, frozenset(n for n in names.values() if n in tables)
    )


def _stand_alone(model: PreTrainedModel, path: str, head: str | None) -> tuple[str, str]:
    """Where the stand-alone LM has its decoder and its head."""
    if not is_vlm(model):
        return path, head or "lm_head"
    root = (head or "").rpartition(".")[0]
    if root and path.startswith(f"{root}.") and head is not None:
        # A whole causal LM stands in the VLM: OPT's decoder is its `model.decoder`.
        return path[len(root) + 1 :], head[len(root) + 1 :]
    return "model", "lm_head"


def _relative(decoder: Any, table: Any, stem: str) -> Iterator[str]:
    yield from (f"{stem}.{path}" for path, module in decoder.named_modules() if module is table)


def _decoder(model: PreTrainedModel) -> PreTrainedModel:
    name = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        raise MixlabError(f"{name} is an encoder and a decoder; it has no causal language model")
    found: Any = model.get_decoder()
    # Some models hold a whole causal LM, head included, where others hold a decoder.
    while found is not None and found.get_output_embeddings() is not None:
        inner = found.get_decoder()
        if inner is found:
            inner = getattr(found, "model", None)
        if getattr(getattr(inner, "config", None), "model_type", "") != found.config.model_type:
            break
        found = inner
    if found is None or found is model or getattr(found, "config", None) is None:
        raise MixlabError(f"{name}: transformers names no decoder in it")
    text = text_config(model.config)
    if found.config.model_type != text.model_type or (
        type(found.config) is type(model.config) and (is_vlm(model) or _sees(model.config))
    ):
        raise MixlabError(
            f"{name}: the decoder {type(found).__name__} ({found.config.model_type}) is not the "
            f"text model ({text.model_type}) alone"
        )
    return found


def _sees(config: PretrainedConfig) -> bool:
    return any("vision" in name or "visual" in name for name in config.sub_configs)


def _head(model: PreTrainedModel) -> nn.Module | None:
    head: Any = model.get_output_embeddings()
    if head is None:
        inner: Any = model.get_decoder()
        head = None if inner is model else inner.get_output_embeddings()
    return head


def _blocks(decoder: PreTrainedModel) -> tuple[int, ...]:
    layers: Any = getattr(decoder, "layers", ())
    # Blocks that only look at the image belong to vision: they stay with it.
    apart = set(getattr(decoder.config, "cross_attention_layers", None) or ())
    return tuple(at for at in range(len(layers)) if at not in apart)
