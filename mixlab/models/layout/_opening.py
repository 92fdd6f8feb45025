"""The layout of a folder, and that which `save_pretrained` would write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.checkpoint import Checkpoint, TensorEntry, check_plain, item_size, spell
from mixlab.models._anatomy import is_vlm, read_anatomy
from mixlab.models._quiet import quiet
from mixlab.models.backbone import tied as is_tied
from mixlab.models.layout._evidence import place_by_names
from mixlab.models.layout._layout import Layout
from mixlab.models.layout._rules import Placed, place_tensors
from mixlab.models.layout._skeleton import build_skeleton
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_SHOWN = 8


def open_layout(checkpoint: Checkpoint) -> Layout:
    """Place every stored tensor of a folder, from headers and config.json alone.

    By transformers' own rules, which know the layouts that it writes and older ones of the hub;
    where it does not know the family, or cannot build it here, by names and shapes.

    Raises:
        MixlabError: weights are quantised, tensors of the language model are missing or stored
            twice, or it has no causal language model.
    """
    config, folder = checkpoint.config(), checkpoint.folder
    check_plain(folder, config, checkpoint.entries)
    model, why = build_skeleton(folder, config)
    if model is None:
        return place_by_names(checkpoint.entries, config, checkpoint.tied, why)
    try:
        return _by_rules(model, checkpoint.entries, config, folder)
    except MixlabError as error:
        raise MixlabError(f"{folder}: {error}") from None


def lm_layout(config: PretrainedConfig, cls: type[PreTrainedModel]) -> Layout:
    """What `cls(config).save_pretrained` writes: names, shapes, and how to make them.

    Dtypes in its entries are those of the config, where it states one, else float32.
    """
    import torch
    from transformers.core_model_loading import revert_weight_conversion

    with quiet(), torch.device("meta"):
        model = cls(config)
    state = {
        name: tensor for name, tensor in model.state_dict().items() if name not in _tied(model)
    }
    dtype = config.dtype if isinstance(config.dtype, torch.dtype) else torch.float32
    entries = {}
    for name, tensor in revert_weight_conversion(model, state).items():
        spelling = spell(dtype if tensor.is_floating_point() else tensor.dtype)
        shape = tuple(tensor.shape)
        size = math.prod(shape) * item_size(spelling)
        entries[name] = TensorEntry(name, spelling, shape, 0, size)
    return _by_rules(model, entries, config.to_dict(), None)


def _by_rules(
    model: PreTrainedModel,
    entries: Mapping[str, TensorEntry],
    config: Mapping[str, Any],
    folder: Path | None,
) -> Layout:
    anatomy = read_anatomy(model)
    placed = place_tensors(model, anatomy, entries)
    _check_complete(model, set(anatomy.names.values()), placed, folder)
    unread = f", {len(placed.unknown)} tensors left unread" if placed.unknown else ""
    return Layout(
        kind="vlm" if is_vlm(model) else "lm",
        groups=placed.groups,
        others=(*placed.others, *placed.unknown),
        entries=entries,
        config=config,
        model_type=str(config.get("model_type")),
        tied=is_tied(model),
        how=f"by transformers' rules for {type(model).__name__}{unread}",
    )


def _tied(model: PreTrainedModel) -> set[str]:
    """Names that are saved under another name."""
    return set(getattr(model, "all_tied_weights_keys", None) or {}) if is_tied(model) else set()


def _check_complete(
    model: PreTrainedModel, wanted: set[str], placed: Placed, folder: Path | None
) -> None:
    found = {name for group in placed.groups for name in group.names}
    lost = sorted(wanted - found)
    if is_tied(model):
        lost = [name for name in lost if not name.startswith("lm_head.")]
    if not lost:
        return
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    unread = ", ".join(placed.unknown[:_SHOWN])
    also = f"; it holds {unread}, which it has no place for" if unread else ""
    raise MixlabError(
        f"config.json makes it a {type(model).__name__}, but {len(lost)} tensors of its language "
        f"model are not in the files: {', '.join(lost[:_SHOWN])}{more}{also}; do config.json and "
        "the weights belong together, and is the download complete?"
    )
