"""Stored names placed by what they say and what shapes they have, where no class is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixlab.checkpoint import TensorEntry, language_prefix, tensor_place
from mixlab.models.layout._group import Group
from mixlab.models.layout._layout import Layout
from mixlab.spec import MixlabError


def place_by_names(
    entries: Mapping[str, TensorEntry], config: Mapping[str, Any], tied: bool | None, why: str
) -> Layout:
    """The list of blocks with the most tensors that is no tower's, and what stands around it.

    Args:
        why: why transformers' rules are not used.

    Raises:
        MixlabError: there are no such blocks.
    """
    prefix = language_prefix(entries)
    if prefix is None:
        shown = ", ".join(list(entries)[:4])
        raise MixlabError(
            f"{why}; and its names show no blocks of a language model (such as model.layers.0): "
            f"{shown}, …; give the prefixes by hand with `names:` in a recipe"
        )
    own = prefix not in ("", "model.", "transformer.")  # a module of the language model's own
    groups, others = [], []
    for name in entries:
        place = tensor_place(name)
        apart = place.module == "other" if place.layer is None else place.prefix != prefix
        if place.layer is None and own and name.startswith(prefix):
            apart = False  # projections that no other family has, say
        if apart:
            others.append(name)
        elif place.module == "lm_head":
            groups.append(Group((name,), (f"lm_head.{name.rpartition('.')[2]}",)))
        else:
            stem = name[len(prefix) :] if name.startswith(prefix) else name
            groups.append(Group((name,), (f"model.{stem}",)))
    heads = any(one.names[0].startswith("lm_head.") for one in groups)
    sees = others or any("vision" in key or "visual" in key for key in config)
    return Layout(
        kind="vlm" if sees else "lm",
        groups=tuple(groups),
        others=tuple(others),
        entries=entries,
        config=config,
        model_type=str(config.get("model_type")),
        tied=not heads if tied is None else tied,
        how=f"by its names and shapes ({why})",
        placed=False,
    )
