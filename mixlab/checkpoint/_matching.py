"""Which tensors of a VLM are those of a stand-alone language model, by evidence of their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixlab.checkpoint._names import count_layers, is_vocabulary, language_prefix, tensor_place
from mixlab.spec import MixlabError

Shapes = Mapping[str, Sequence[int]]
# Constants that some checkpoints store and others make anew; they are no evidence.
_BUFFERS = (".inv_freq", ".masked_bias", ".attn.bias", ".attention.bias")
_HOW = (
    "give the prefixes by hand, this model's to the target's, for example "
    'names: {"model.": "model.language_model."}'
)
_SHOWN = 12


def match_names(
    target: Shapes, source: Shapes, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Target name -> source name, for every tensor of the target that the source also has.

    Equal names are the answer where all of the source's block tensors stand in the target with
    equal shapes. Otherwise the source's list of blocks is looked for under other prefixes of the
    target (`model.layers.` as `model.language_model.layers.`); it counts as found where every
    block tensor is there, of equal shape, and as many blocks; embeddings, final norm and head
    follow it. Vocabulary tables may have more rows in the target. A head may be missing on
    either side (tied weights are stored once): a target's own head is matched with the tied
    source's embeddings. Other tensors without a counterpart do not stand in the answer.

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
            f"the model has no blocks (such as model.layers.0) to find in the target; {_HOW}"
        )
    blocks = [n for n in source if _in_blocks(n, here) and not n.endswith(_BUFFERS)]
    there = _find(target, source, blocks, here)
    pairs = {}
    for name in source:
        found = _counterpart(name, source[name], here, there, target)
        if found is not None:
            pairs[found] = name
    _follow_tied_head(pairs, target, source, here)
    _check_shapes(target, source, pairs)
    _check_complete(pairs, source, here, there)
    return {name: pairs[name] for name in target if name in pairs}


def _in_blocks(name: str, prefix: str) -> bool:
    place = tensor_place(name)
    return place.layer is not None and place.prefix == prefix


def _find(target: Shapes, source: Shapes, blocks: list[str], here: str) -> str:
    """The one prefix of the target that holds all blocks of the source."""
    tail = blocks[0][len(here) :]
    found = {n[: -len(tail)] for n in target if n == tail or n.endswith("." + tail)}
    wanted = count_layers(blocks)
    fits, told = [], []
    for prefix in sorted(found):
        names = [prefix + name[len(here) :] for name in blocks]
        present = [n for n in names if n in target]
        equal = sum(
            n in target and tuple(target[n]) == tuple(source[b])
            for n, b in zip(names, blocks, strict=True)
        )
        depth = count_layers(n for n in target if n.startswith(prefix) and _in_blocks(n, prefix))
        told.append(
            f"{prefix or '(no prefix)'}: {len(present)} of {len(blocks)} block tensors there, "
            f"{equal} of equal shape, {depth or wanted} blocks for {wanted}"
        )
        if equal == len(blocks) and depth in (0, wanted):
            fits.append(prefix)
    if here in fits:
        return here
    if len(fits) == 1:
        return fits[0]
    shown = "\n  ".join(told) or _other_blocks(target)
    what = "in several places" if fits else "nowhere as a whole"
    raise MixlabError(
        f"the model's {len(blocks)} block tensors under {here!r} are in the target {what}:\n  "
        f"{shown}\n{_HOW}, or leave the model out if its architecture is another"
    )


def _other_blocks(target: Shapes) -> str:
    prefixes = sorted({tensor_place(n).prefix for n in target if tensor_place(n).layer is not None})
    return "the target has blocks under " + (", ".join(map(repr, prefixes)) or "no prefix at all")


def _counterpart(
    name: str, shape: Sequence[int], here: str, there: str, target: Shapes
) -> str | None:
    if here == there and name in target:
        return name
    if name.startswith(here) and there + name[len(here) :] in target:
        return there + name[len(here) :]
    place = tensor_place(name)
    if _in_blocks(name, here):
        return None
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
            f"has no counterpart of {len(lost)} tensors:\n  {_listed(lost)}\n{_HOW}"
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
