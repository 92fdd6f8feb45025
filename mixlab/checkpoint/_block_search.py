"""The blocks of a stand-alone language model, found among those of a larger model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mixlab.checkpoint._names import tensor_place
from mixlab.spec import MixlabError

Shapes = Mapping[str, Sequence[int]]
HOW = (
    "give the prefixes by hand, this model's to the target's, for example "
    'names: {"model.": "model.language_model."}'
)


def find_blocks(
    target: Shapes, source: Shapes, blocks: list[str], here: str
) -> tuple[str, dict[int, int]]:
    """The one prefix of the target that holds all blocks of the source, and which of its blocks."""
    its = _by_layer({name: source[name] for name in blocks}, here)
    kinds = {frozenset(block.items()) for block in its.values()}
    tail = blocks[0][len(here) :]
    fits: dict[str, dict[int, int]] = {}
    told = []
    for prefix in sorted(n[: -len(tail)] for n in target if n == tail or n.endswith("." + tail)):
        mine = _by_layer(target, prefix)
        # Further blocks may stand between (those of cross-attention), of another kind.
        kept = [at for at in mine if any(kind <= mine[at].items() for kind in kinds)]
        pairs = dict(zip(its, kept, strict=False))
        if len(kept) == len(its) and all(
            its[a].items() <= mine[b].items() for a, b in pairs.items()
        ):
            fits[prefix] = pairs
        same = [name for name in blocks if prefix + name[len(here) :] in target]
        equal = [n for n in same if tuple(target[prefix + n[len(here) :]]) == tuple(source[n])]
        told.append(
            f"{prefix or '(no prefix)'}: {len(same)} of {len(blocks)} block tensors there, "
            f"{len(equal)} of equal shape, {len(mine)} blocks for {len(its)}"
        )
    named = [p for p in fits if tensor_place(p + tail).layer is not None]
    choice = [here] if here in fits else named if len(named) == 1 else list(fits)
    if len(choice) == 1:
        return choice[0], fits[choice[0]]
    shown = "\n  ".join(told) or _other_blocks(target)
    what = "in several places" if fits else "nowhere as a whole"
    raise MixlabError(
        f"the model's {len(blocks)} block tensors under {here!r} are in the target {what}:\n  "
        f"{shown}\n{HOW}, or leave the model out if its architecture is another"
    )


def _by_layer(shapes: Shapes, prefix: str) -> dict[int, dict[str, tuple[int, ...]]]:
    """Block index -> its tensors by the rest of their names, in order of the index."""
    found: dict[int, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        part = split_block(name, prefix)
        if part is not None:
            found.setdefault(part[1], {})[f"{part[0]}.{part[2]}"] = tuple(shape)
    return dict(sorted(found.items()))


def split_block(name: str, prefix: str) -> tuple[str, int, str] | None:
    """`layers`, 3, `mlp.up_proj.weight` of a name in the blocks below `prefix`."""
    parts = name.removeprefix(prefix).split(".", 2) if name.startswith(prefix) else []
    return (parts[0], int(parts[1]), parts[2]) if len(parts) == 3 and parts[1].isdigit() else None


def _other_blocks(target: Shapes) -> str:
    prefixes = sorted({tensor_place(n).prefix for n in target if tensor_place(n).layer is not None})
    return "the target has blocks under " + (", ".join(map(repr, prefixes)) or "no prefix at all")


def in_blocks(name: str, prefix: str) -> bool:
    """Whether a tensor stands in the language model's blocks below this very prefix."""
    place = tensor_place(name)
    return place.layer is not None and place.prefix == prefix
