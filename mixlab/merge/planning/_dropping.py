"""What a model has and the target has not: dropped, and why, or a mistake."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from mixlab.checkpoint import language_prefix, tensor_place
from mixlab.merge._plan import Input, TensorPlan
from mixlab.merge.planning._heads import Heads, lone_head
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._opening import Side
from mixlab.merge.planning._pairing import is_buffer, part_of
from mixlab.merge.planning._recipe import Recipe

LACKS = "the target lacks it"
_MEND = "leave it out with `scope:`, or drop it with `missing: keep`"


def dropped_tensors(
    side: Side, target: Side, heads: Heads, recipe: Recipe, mistakes: Mistakes, warnings: list[str]
) -> Iterator[TensorPlan]:
    """One plan for each tensor of `side` that is paired with none of the target's.

    A tensor of the language model, or of another part that both have, must not be missing in the
    target unless the scope leaves it out or `missing` is "keep".
    """
    used = set(side.pairs.values())
    prefix = language_prefix(side.source.entries)
    parts = {part_of(name) for name in used}
    head, warning = lone_head(side, heads)
    for name, entry in side.source.entries.items():
        if name in used:
            continue
        place = tensor_place(name)
        if place.layer is not None:
            shared = place.prefix == prefix
        else:
            shared = place.module != "other" or part_of(name) in parts
        if is_buffer(name):
            because = "buffer, given by the config"
        elif name == head:
            because = f"tied to {heads.table} in the target"
            warnings += [warning] if warning else []
        elif recipe.scope and not any(fnmatchcase(name, glob) for glob in recipe.scope):
            because = "scope"
        elif not shared:
            because = f"not in the target ({part_of(name)})"
        else:
            because = LACKS
            if recipe.missing == "error":
                file = side.place(name)
                mistakes.add(f"{name}: in {file}, but {target.folder} has no such tensor", _MEND)
        # `target` tells which model it is of; nothing of it is written.
        origin = Input(side.index, entry)
        yield TensorPlan(name, "drop", because, entry.dtype, entry.shape, origin)
