"""Which tensors of a VLM are those of a stand-alone language model, by evidence of their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixlab.checkpoint._block_search import HOW, Shapes, find_blocks, in_blocks, split_block
from mixlab.checkpoint._names import is_vocabulary, language_prefix, tensor_place
from mixlab.spec import MixlabError

# Constants that some checkpoints store and others make anew; they are no evidence.
_BUFFERS = (".inv_freq", ".masked_bias", ".attn.bias", ".attention.bias")
_SHOWN = 12


def match_names(
    target: Shapes, source: Shapes, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Target name -> source name, for every tensor of the target that the source also has.

    Equal names are the answer where all of the source's block tensors stand in the target with
    equal shapes. Otherwise the source's list of blocks is looked for under other prefixes of the
    target (`model.layers.` as `model.language_model.layers.`); it counts as found where every
    block tensor is there, of equal shape, and as many blocks of that kind, in order. Blocks of
    another kind may stand between them (cross-attention): block 4 may then be the target's 5.
    Embeddings, final norm and head follow. Vocabulary tables may have more rows in the target. A
    head may be missing on either side (tied weights are stored once): a target's own head is
    matched with the tied source's embeddings. Other tensors without a counterpart do not stand in
    the answer.

    Args:
        target, source: name -> shape.
        given: source prefix -> target prefix; the longest that fits a name is replaced, names
            under none keep theirs.

    Raises:
        MixlabError: no place or several fit (with the candidates), or a shape differs.
    """
    if given is not None:
        return _by_hand(target, source, given)
    here = language_prefix(source)
    if here is None:
        same = {name: name for name in source if name in target}
        if len(same) == len(source):
            _check_shapes(target, source, same)
            return same
        raise MixlabError(
            f"the model has no blocks (such as model.layers.0) to find in the target; {HOW}"
        )
    blocks = [n for n in source if in_blocks(n, here) and not n.endswith(_BUFFERS)]
    there, layers = find_blocks(target, source, blocks, here)
    pairs = {}
    for name in source:
        found = _counterpart(name, source[name], here, there, layers, target)
        if found is not None:
            pairs[found] = name
    _follow_tied_head(pairs, target, source, here)
    _check_shapes(target, source, pairs)
    _check_complete(pairs, source, here, there)
    return {name: pairs[name] for name in target if name in pairs}


def _counterpart(
    name: str,
    shape: Sequence[int],
    here: str,
    there: str,
    layers: Mapping[int, int],
    target: Shapes,
) -> str | None:
    if in_blocks(name, here):
        container, layer, rest = split_block(name, here) or ("", 0, "")
        moved = f"{there}{container}.{layers.get(layer, layer)}.{rest}"
        return moved if moved in target else None
    if here == there and name in target:
        return name
    if name.startswith(here) and there + name[len(here) :] in target:
        return there + name[len(here) :]
    place = tensor_place(name)
    # `language_model.model.` for `model.`: what stands outside is wrapped in the same way.
    if there.endswith(here) and there[: len(there) - len(here)] + name in target:
        return there[: len(there) - len(here)] + name
    if place.module == "lm_head":
        leaf = name.rpartition(".")[2]
        heads = [n for n in target if tensor_place(n).module == "lm_head" and n.endswith(leaf)]
        return heads[0] if len(heads) == 1 else None
    same = name in target and tuple(target[name]) == tuple(shape)
    return name if same and place.module == "other" else None


def _follow_tied_head(pairs: dict[str, str], target: Shapes, source: Shapes, here: str) -> None:
    # Without a prefix the source is a decoder alone, which has no head that could be tied.
    if here == "" or any(tensor_place(n).module == "lm_head" for n in source):
        return
    table = [
        n for n in source
        if is_vocabulary(n) and len(source[n]) == 2 and "per_layer" not in n
    ]  # fmt: skip
    head = [n for n in target if tensor_place(n).module == "lm_head" and n.endswith("weight")]
    if len(table) == len(head) == 1:
        pairs.setdefault(head[0], table[0])


def _check_shapes(target: Shapes, source: Shapes, pairs: Mapping[str, str]) -> None:
    wrong = []
    for mine, its in pairs.items():
        a, b = tuple(target[mine]), tuple(source[its])
        if a != b and not (is_vocabulary(mine) and a and b and a[1:] == b[1:] and a[0] >= b[0]):
            wrong.append(f"{mine}: {list(a)} in the target, {list(b)} in the model ({its})")
    if wrong:
        raise MixlabError(f"{len(wrong)} shapes differ:\n  " + _listed(wrong))


def _check_complete(pairs: Mapping[str, str], source: Shapes, here: str, there: str) -> None:
    used = set(pairs.values())
    lost = [
        name
        for name in source
        if name not in used
        and not name.endswith(_BUFFERS)
        and tensor_place(name).module not in ("other", "lm_head")
    ]
    if lost:
        raise MixlabError(
            f"the model's blocks under {here!r} are the target's under {there!r}, but the target "
            f"has no counterpart of {len(lost)} tensors:\n  {_listed(lost)}\n{HOW}"
        )


def _by_hand(target: Shapes, source: Shapes, given: Mapping[str, str]) -> dict[str, str]:
    prefixes = sorted(given, key=len, reverse=True)
    pairs, lost, unused = {}, [], set(given)
    for name in source:
        prefix = next((p for p in prefixes if name.startswith(p)), None)
        if prefix is None:
            if name in target:
                pairs[name] = name
            continue
        unused.discard(prefix)
        mapped = given[prefix] + name[len(prefix) :]
        if mapped in target:
            pairs[mapped] = name
        elif not name.endswith(_BUFFERS) and tensor_place(name).module != "lm_head":
            lost.append(f"{name}: the target has no {mapped}")
    if unused:
        raise MixlabError(
            f"names: no tensor of the model begins with {sorted(unused)}; its names begin with "
            f"{sorted({tensor_place(n).prefix for n in source})}"
        )
    if lost:
        raise MixlabError(f"names: {len(lost)} tensors have no counterpart:\n  {_listed(lost)}")
    _check_shapes(target, source, pairs)
    return {name: pairs[name] for name in target if name in pairs}


def _listed(lines: Sequence[str]) -> str:
    more = len(lines) - _SHOWN
    return "\n  ".join([*lines[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
