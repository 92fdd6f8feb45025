"""The config.json of an output: the target's, made to agree with the weights beside it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mixlab.checkpoint import spell, torch_dtype
from mixlab.spec import MixlabError

# Where the families keep the language model's part of a config.
_TEXT = ("text_config", "llm_config", "language_config")
_AROUND_TEXT = ("thinker_config",)
_DTYPE = ("dtype", "torch_dtype")
_DEPTH = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_VOCABULARY = ("vocab_size", "padded_vocab_size")
# Lists of layer numbers, as against lists with one value a layer.
_LAYER_NUMBERS = ("mlp_only_layers", "moe_layers", "cross_attention_layers")
_TOKEN_IDS = ("_token_id", "_token_ids", "_token_index")


def output_config(
    config: Mapping[str, Any],
    *,
    dtype: str | None = None,
    tied: bool | None = None,
    vocab_size: int | None = None,
    layers: int | Sequence[int] | None = None,
) -> dict[str, Any]:
    """A copy of `config` with what changed; None leaves a matter as it is.

    What stands in the language model's own part (`text_config`) is changed there, and at the top
    where it is stated there too. Everything else, `auto_map` included, is kept as plain data.

    Args:
        dtype: of the floating tensors, `bfloat16` or `BF16`. It goes into every part that states
            one, under the key that it uses (`dtype` or `torch_dtype`), and always to the top.
        tied: whether lm_head is the embedding.
        vocab_size: rows of the embedding.
        layers: the number of blocks; or the source's block for each block of the output, where
            they are picked or repeated. Lists with one value a layer (`layer_types`) follow.

    Raises:
        MixlabError: an unknown dtype; more layers than a per-layer list has values, and no blocks
            named to repeat; a block that the source lacks.
    """
    out = copy.deepcopy(dict(config))
    parts = list(_text_parts(out)) or [out]
    if dtype is not None:
        _set_dtype(out, _torch_name(dtype))
    if tied is not None:
        for part in (out, *parts):
            part["tie_word_embeddings"] = tied
    if vocab_size is not None:
        for part in parts:
            part["vocab_size"] = vocab_size
        for part in (out, *parts):
            part.update({key: vocab_size for key in _VOCABULARY if key in part})
    if layers is not None:
        for part in parts:
            _set_layers(part, layers)
        if parts[0] is not out:
            _set_layers(out, layers, stated=True)
    return out


def check_token_ids(config: Mapping[str, Any]) -> tuple[str, ...]:
    """One warning for each token id of a config that lies beyond its vocabulary."""
    parts = [part for part in (config, *_text_parts(config)) if _is_count(part.get("vocab_size"))]
    if not parts:
        return ()
    rows = parts[-1]["vocab_size"]
    found = {}
    for part in (config, *_text_parts(config)):
        for key, value in part.items():
            if key.endswith(_TOKEN_IDS):
                ids = value if isinstance(value, list) else [value]
                beyond = [i for i in ids if _is_count(i) and i >= rows]
                if beyond:
                    found[key] = (
                        f"config.json: {key} {beyond[0]} lies beyond the vocabulary of {rows} rows"
                    )
    return tuple(found.values())


def config_text(config: Mapping[str, Any]) -> str:
    """`config` as the text of a config.json, as transformers writes it.

    Infinity is kept, though it is no JSON: state space models state their time limits by it.
    """
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _text_parts(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key in (*_TEXT, *_AROUND_TEXT):
        part = config.get(key)
        if isinstance(part, dict):
            if key in _TEXT:
                yield part
            yield from _text_parts(part)


def _torch_name(dtype: str) -> str:
    import torch

    found = getattr(torch, dtype, None)
    spelling = spell(found) if isinstance(found, torch.dtype) else dtype
    return str(torch_dtype(spelling)).removeprefix("torch.")


def _set_dtype(config: dict[str, Any], name: str) -> None:
    for part in _parts(config):
        for key in _DTYPE:
            if isinstance(part.get(key), str):
                part[key] = name
    if not any(key in config for key in _DTYPE):
        config["dtype"] = name
    elif not any(isinstance(config.get(key), str) for key in _DTYPE):
        config[next(key for key in _DTYPE if key in config)] = name


def _parts(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield config
    for key, part in config.items():
        if key.endswith("_config") and key != "quantization_config" and isinstance(part, dict):
            yield from _parts(part)


def _set_layers(part: dict[str, Any], layers: int | Sequence[int], *, stated: bool = False) -> None:
    depth = next((key for key in _DEPTH if _is_count(part.get(key))), None)
    if depth is None and stated:
        return
    old = part[depth] if depth else None
    order = list(range(layers)) if isinstance(layers, int) else list(layers)
    if old is not None and not isinstance(layers, int) and any(not 0 <= n < old for n in order):
        raise MixlabError(f"config.json: blocks {order}; the source has blocks 0 to {old - 1}")
    for key, value in part.items():
        if not isinstance(value, list) or ("layer" not in key and "block" not in key):
            continue
        if key in _LAYER_NUMBERS:
            part[key] = [new for new, source in enumerate(order) if source in value]
        elif len(value) == old:
            if order and max(order) >= len(value):
                raise MixlabError(
                    f"config.json: {key} has {len(value)} values for {len(order)} layers; name "
                    "the source's block for each block of the output"
                )
            part[key] = [value[source] for source in order]
    for key in _DEPTH:
        if _is_count(part.get(key)) or key == (depth or "num_hidden_layers"):
            part[key] = len(order)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
