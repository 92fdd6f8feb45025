"""The models of a question of lineage, opened, and their tensors paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlab.checkpoint import (
    Checkpoint,
    Module,
    TensorEntry,
    TensorSource,
    check_plain,
    count_layers,
    is_vocabulary,
    language_prefix,
    match_names,
    tensor_place,
    text_part,
)
from mixlab.probe._reading import FLOATS
from mixlab.spec import MixlabError

_SHOWN = 8
_SENSES = ("vision", "visual", "image", "img", "vit_", "video", "audio")


@dataclass(frozen=True)
class Tensor:
    """One tensor of the backbone, in the VLM and in each reference.

    Args:
        name: in the VLM's file.
        layer, module: of the language model.
        shape: in the VLM; a vocabulary table's rows are those that all models have.
        names: in each reference's file; None where that reference has none (a tied head).
    """

    name: str
    layer: int | None
    module: Module
    shape: tuple[int, ...]
    names: tuple[str | None, ...]

    @property
    def matrix(self) -> bool:
        """Whether it is a matrix of a block, on which the geometry rests."""
        return self.layer is not None and len(self.shape) > 1


@dataclass(frozen=True)
class Opened:
    """A VLM and its references, opened.

    Args:
        folders, checkpoints, configs: the VLM's first.
        sources: their backbones, each under the checkpoint's own names.
        vlm: for each, whether it has parts beside a language model.
        tensors: of the backbone, in the order of the VLM's file.
    """

    folders: tuple[Path, ...]
    checkpoints: tuple[Checkpoint, ...]
    sources: tuple[TensorSource, ...]
    configs: tuple[dict[str, Any], ...]
    vlm: tuple[bool, ...]
    tensors: tuple[Tensor, ...]

    def close(self) -> None:
        """Close the files; names and shapes stay known."""
        for checkpoint in self.checkpoints:
            checkpoint.close()


def open_models(vlm: str | Path, references: Sequence[str | Path]) -> Opened:
    """Open folders and pair their tensors; reads headers and configs alone.

    Raises:
        MixlabError: a folder is no model, quantised, or of another size than the VLM's backbone:
            each tensor that does not fit is named, with both shapes.
    """
    if not references:
        raise MixlabError("no reference was given; lineage compares a VLM with one or more LMs")
    folders = tuple(Path(one) for one in (vlm, *references))
    checkpoints: list[Checkpoint] = []
    try:
        checkpoints += (Checkpoint.open(folder, key=str(folder)) for folder in folders)
        return _paired(folders, checkpoints)
    except BaseException:
        for checkpoint in checkpoints:
            checkpoint.close()
        raise


def _paired(folders: tuple[Path, ...], checkpoints: Sequence[Checkpoint]) -> Opened:
    configs = tuple(c.config() for c in checkpoints)
    for folder, config, one in zip(folders, configs, checkpoints, strict=True):
        check_plain(folder, config, one.entries)
    try:
        pairs = [_pair(checkpoints[0], other) for other in checkpoints[1:]]
        sources: tuple[TensorSource, ...] = tuple(checkpoints)
    except MixlabError as error:
        for other in checkpoints[1:]:
            _refuse_size(checkpoints[0], other, error)
        sources = _presented(checkpoints)
        names = [n for n in sources[0].entries if tensor_place(n).module != "other"]
        pairs = [{n: n for n in names if n in source.entries} for source in sources[1:]]
    tensors = tuple(_tensors(sources, pairs))
    for at, folder in enumerate(folders[1:]):
        _check_blocks(folders[0], folder, [t for t in tensors if t.matrix], at)
    sees = tuple(map(_sees, checkpoints, configs))
    return Opened(folders, tuple(checkpoints), sources, configs, sees, tensors)


def _check_blocks(vlm: Path, folder: Path, matrices: Sequence[Tensor], at: int) -> None:
    lost = [tensor.name for tensor in matrices if tensor.names[at] is None]
    if lost or not matrices:
        found = f"lacks {len(lost)} of the {len(matrices)}" if len(lost) < len(matrices) else "no"
        named = f" (such as {lost[0]})" if lost else ""
        raise MixlabError(
            f"{folder}: {found} matrices of the blocks of {vlm}{named}; expected a language model "
            "of the VLM's own architecture and size"
        )


def _presented(checkpoints: Sequence[Checkpoint]) -> tuple[TensorSource, ...]:
    """The backbones of all under the VLM's names, by what transformers knows of their layouts.

    Asked only where names and shapes do not settle it (fused tensors, say): transformers is slow
    to import.
    """
    from mixlab.models.layout import open_layout, present

    layouts = [open_layout(checkpoint) for checkpoint in checkpoints]
    return tuple(
        present(checkpoint, layout, layouts[0])
        for checkpoint, layout in zip(checkpoints, layouts, strict=True)
    )


def _sees(checkpoint: Checkpoint, config: Mapping[str, Any]) -> bool:
    """Whether there is a part beside the language model: named by the config, and with matrices."""
    named = any(word in key for key in config for word in _SENSES)
    beside = (
        len(entry.shape) > 1 and tensor_place(name).module == "other"
        for name, entry in checkpoint.entries.items()
        if tensor_place(name).layer is None
    )  # fmt: skip
    return named and any(beside)


def _pair(vlm: Checkpoint, other: Checkpoint) -> dict[str, str]:
    """VLM's name -> reference's name."""
    mine = {name: entry.shape for name, entry in vlm.entries.items()}
    its = {
        name: entry.shape if not is_vocabulary(name) else _clipped(entry, mine)
        for name, entry in other.entries.items()
    }
    found = match_names(mine, its)
    prefix = language_prefix(vlm.entries)
    return {
        a: b for a, b in found.items()
        if ((place := tensor_place(a)).layer is not None and place.prefix == prefix)
        or (place.layer is None and place.module != "other")
    }  # fmt: skip


def _clipped(entry: TensorEntry, target: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """A table's shape with no more rows than the other side's tables of its width have."""
    rows = [s[0] for n, s in target.items() if is_vocabulary(n) and s[1:] == entry.shape[1:]]
    return (min(entry.shape[0], max(rows)), *entry.shape[1:]) if rows else entry.shape


def _refuse_size(vlm: Checkpoint, other: Checkpoint, error: MixlabError) -> None:
    a, b = (text_part(c.config()) for c in (vlm, other))
    layers = count_layers(vlm.entries), count_layers(other.entries)
    deep = f"blocks: {layers[0]} and {layers[1]}"
    told = [deep] if all(layers) and layers[0] != layers[1] else []
    told += [
        f"{field}: {a[field]} and {b[field]}"
        for field in (
            "hidden_size", "intermediate_size", "num_attention_heads",
            "num_key_value_heads", "head_dim",
        )
        if field in a and field in b and a[field] != b[field]
    ]  # fmt: skip
    if told:
        raise MixlabError(
            f"{vlm.folder} and {other.folder} are of other sizes:\n  " + "\n  ".join(told) + "\n"
            "Lineage needs a reference of the VLM's own architecture and size; one of another "
            "size cannot be its ancestor"
        ) from error


def _tensors(sources: Sequence[TensorSource], pairs: Sequence[Mapping[str, str]]) -> list[Tensor]:
    found, wrong, apart = [], [], []
    for name, entry in sources[0].entries.items():
        names = tuple(pair.get(name) for pair in pairs)
        if not any(names):
            continue
        place = tensor_place(name)
        theirs = zip(sources[1:], names, strict=True)
        entries = [entry, *(s.entries[n] for s, n in theirs if n is not None)]
        wrong += [f"{e.name}: {e.dtype}" for e in entries if e.dtype not in FLOATS]
        rows = min(e.shape[0] for e in entries) if is_vocabulary(name) and entry.shape else None
        shape = entry.shape if rows is None else (rows, *entry.shape[1:])
        apart += [
            f"{e.name}: {list(entry.shape)} and {list(e.shape)}"
            for e in entries
            if e.shape[rows is not None :] != shape[rows is not None :]
        ]
        found.append(Tensor(name, place.layer, place.module, shape, names))
    if apart:
        raise MixlabError(
            f"{len(apart)} tensors have other shapes in a reference than in the VLM, expected the "
            "same: " + ", ".join(apart[:_SHOWN]) + "; give a reference of the VLM's own size"
        )
    if wrong:
        raise MixlabError(
            f"{len(wrong)} tensors hold no floating numbers, expected {', '.join(FLOATS)}: "
            + ", ".join(wrong[:_SHOWN])
            + "; these look like quantised weights; give the unquantised model"
        )
    return found
