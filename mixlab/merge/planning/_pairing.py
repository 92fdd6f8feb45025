"""Which tensor of another model belongs to which of the target's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mixlab.checkpoint import TensorEntry, count_layers, language_prefix, match_names, tensor_place
from mixlab.spec import MixlabError

# Constants that some checkpoints store and others make anew from the config.
_BUFFERS = (".inv_freq", ".masked_bias", ".attn.bias", ".attention.bias")
Entries = Mapping[str, TensorEntry]


def pair_names(target: Entries, source: Entries, given: Mapping[str, str] | None) -> dict[str, str]:
    """Target name -> source name, for every tensor that both have, in the target's order.

    Where both keep their blocks under one prefix, equal names are pairs, whatever their shapes: it
    is then known which tensor is wrong. Otherwise the evidence of shapes decides (`match_names`),
    and where that fails although most names fit, the pairs are given all the same, for the caller
    to name each tensor that does not.

    Args:
        given: source prefix -> target prefix, by hand.

    Raises:
        MixlabError: no place or several fit.
    """
    mine, its = ({n: e.shape for n, e in side.items()} for side in (target, source))
    if given is not None:
        return match_names(mine, its, given)
    here, there = language_prefix(source), language_prefix(target)
    if here == there:
        pairs = {name: name for name in target if name in source}
    else:
        try:
            return match_names(mine, its)
        except MixlabError:
            # Of other depth, blocks of one number need not be the same block.
            if here is None or there is None or count_layers(source) != count_layers(target):
                raise
            pairs = _swapped(target, source, here, there)
            if 2 * len(pairs) <= sum(name.startswith(here) for name in source):
                raise
    head, table = head_and_table(target)
    its_head, its_table = head_and_table(source)
    if head and table and not its_head and its_table and pairs.get(table) == its_table:
        pairs[head] = its_table
    return {name: pairs[name] for name in target if name in pairs}


def head_and_table(entries: Entries) -> tuple[str | None, str | None]:
    """Names of the language model's lm_head and token embeddings, where there is one of each."""
    heads, tables = [], []
    for name, entry in entries.items():
        module = tensor_place(name).module
        if len(entry.shape) != 2 or not name.endswith("weight"):
            continue
        if module == "lm_head":
            heads.append(name)
        elif module == "embeddings" and not is_position_table(name):
            tables.append(name)
    return (heads[0] if len(heads) == 1 else None, tables[0] if len(tables) == 1 else None)


def is_position_table(name: str) -> bool:
    """Whether an embedding counts something else than tokens."""
    return any(word in name for word in ("position", "wpe", "per_layer", "token_type"))


def is_buffer(name: str) -> bool:
    """Whether a tensor is a constant that the config gives, no weight."""
    return name.endswith(_BUFFERS)


def part_of(name: str) -> str:
    """The part of a model that a tensor belongs to: `vision_tower`, `model.visual`, `lm_head`."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "model" and len(parts) > 2 else parts[0]


def parts_of(names: Iterable[str]) -> str:
    """The distinct parts among the names, for a sentence."""
    found = list(dict.fromkeys(part_of(name) for name in names))
    return ", ".join(found[:4]) + (", …" if len(found) > 4 else "")


def _swapped(target: Entries, source: Entries, here: str, there: str) -> dict[str, str]:
    wrap = there[: len(there) - len(here)] if here and there.endswith(here) else ""
    heads = [n for n in target if tensor_place(n).module == "lm_head" and n.endswith("weight")]
    pairs = {}
    for name in source:
        if name.startswith(here) and there + name[len(here) :] in target:
            pairs[there + name[len(here) :]] = name
        elif wrap + name in target and not name.startswith(here):
            pairs[wrap + name] = name
        elif tensor_place(name).module == "lm_head" and len(heads) == 1 and name.endswith("weight"):
            pairs[heads[0]] = name
    return pairs
