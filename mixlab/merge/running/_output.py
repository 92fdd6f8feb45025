"""The output folder: what may not be one, and which shards are taken over whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mixlab.checkpoint import Checkpoint, OutTensor, Shard, TensorSource, plan_shards, tensor_size
from mixlab.merge._plan import MergePlan
from mixlab.spec import MixlabError
from mixlab.store import check_free_space

# Beyond weights: config, tokenizer, card; and what the file system keeps for itself.
_SPARE_BYTES = 16 << 20


def check_out(out: Path, folders: Sequence[Path]) -> None:
    """Refuse an output that holds something, overlaps with an input, or cannot be put in place.

    The finished folder is renamed to `out`, so that its parent must be writable, and `out` no place
    that refuses renaming.

    Raises:
        MixlabError: saying which, and how to mend it.
    """
    real = out.resolve()
    for folder in folders:
        given = _whole(folder.resolve())
        if real == given:
            raise MixlabError(
                f"{out}: is an input of this merge, and inputs are never written to; choose "
                "another output folder"
            )
        if real.is_relative_to(given) or given.is_relative_to(real):
            how = "inside" if real.is_relative_to(given) else "around"
            raise MixlabError(
                f"{out}: lies {how} the input {folder}, and inputs are never written to; choose "
                "another output folder"
            )
    if out.is_symlink() and not out.exists():
        raise MixlabError(f"{out}: is a link to nothing; remove it or choose another folder")
    if out.exists() and not out.is_dir():
        raise MixlabError(f"{out}: is a file; expected a new or empty folder")
    if out.is_dir() and any(out.iterdir()):
        raise MixlabError(
            f"{out}: is not empty, and files of an earlier merge could be taken for this one's; "
            "choose another output folder, or empty this one if nothing in it is needed"
        )
    if out.is_dir() and (real == Path.cwd() or out.is_mount()):
        what = "the working directory" if real == Path.cwd() else "where a disk is mounted"
        raise MixlabError(
            f"{out}: is {what}, which a finished merge cannot take the place of; choose a new "
            f"folder in it, such as {out / 'merged'}"
        )
    _check_parent(out, real)


def _whole(folder: Path) -> Path:
    """A snapshot of the hub's cache is only links: its files lie in `blobs` beside."""
    cache = folder.parent.parent
    if folder.parent.name == "snapshots" and cache.name.startswith("models--"):
        return cache
    return folder


def _check_parent(out: Path, real: Path) -> None:
    above = next(path for path in real.parents if os.path.lexists(path))
    if not above.is_dir():
        raise MixlabError(f"{out}: {above} is a file; expected a folder that {out.name} can be in")
    if not os.access(above, os.W_OK | os.X_OK):
        raise MixlabError(
            f"{out}: no permission to write in {above}; choose an output folder in one that you own"
        )


def output_shards(plan: MergePlan, max_shard_size: int | None) -> tuple[Shard, ...]:
    """The output's files; as the target's where no size is given."""
    tensors = [OutTensor(one.name, one.dtype, one.shape) for one in plan.written]
    like = target_layout(plan) if max_shard_size is None else None
    return plan_shards(tensors, max_bytes=max_shard_size, like=like)


def check_room(
    out: Path, shards: Sequence[Shard], whole: Mapping[str, Path], *, link: bool
) -> None:
    """Refuse a disk that the output does not fit on.

    Args:
        whole: files that are taken over whole, which need no room where they are linked.

    Raises:
        MixlabError: how much is free and how much is needed.
    """
    new = [shard for shard in shards if not (link and shard.file_name in whole)]
    check_free_space(out.resolve(), sum(shard.size for shard in new) + _SPARE_BYTES)


def check_room_of_stages(out: Path, plans: Sequence[MergePlan]) -> None:
    """Refuse, before the first of several merges, a disk that their outputs do not fit on together.

    Counts what each must write in any case; `check_room` counts the rest before each merge.

    Raises:
        MixlabError: how much is free and how much is needed.
    """
    needed = sum(
        tensor_size(tensor.dtype, tensor.shape)
        for plan in plans
        for tensor in plan.written
        if tensor.action == "mix"
    )
    check_free_space(out.resolve(), needed + _SPARE_BYTES)


def check_unchanged(source: TensorSource) -> None:
    """Check that the files of a source, and of what it stands on, are those that were opened.

    Raises:
        MixlabError: naming the file that changed.
    """
    inner: Any = source
    while inner is not None:
        if isinstance(inner, Checkpoint):
            inner.unchanged()
        inner = getattr(inner, "base", None)


def untouched_shards(plan: MergePlan, shards: Sequence[Shard]) -> dict[str, Path]:
    """Shards that are an input's file as it is: name in the output -> that file.

    All tensors of the file are kept, under their names and dtypes, and nothing is added.
    """
    by_name = {tensor.name: tensor for tensor in plan.written}
    found: dict[str, Path] = {}
    for shard in shards:
        files: set[Path] = set()
        source = None
        for one in shard.tensors:
            tensor = by_name[one.name]
            target = tensor.target
            source = plan.sources[target.model] if target is not None else None
            if (
                tensor.action != "keep"
                or target is None
                or not isinstance(source, Checkpoint)
                or target.entry.name != tensor.name
                or (target.entry.dtype, target.entry.shape) != (tensor.dtype, tensor.shape)
            ):
                break
            files.add(source.file_of(tensor.name))
        else:
            if len(files) == 1 and isinstance(source, Checkpoint):
                (file,) = files
                held = sum(source.file_of(name) == file for name in source.entries)
                if held == len(shard.tensors):
                    found[shard.file_name] = file
    return found


def target_layout(plan: MergePlan) -> dict[str, str] | None:
    """Tensor -> file name in the target's folder, for the tensors that it has."""
    source = plan.sources[plan.target]
    if not isinstance(source, Checkpoint):
        return None
    names = {tensor.name for tensor in plan.written}
    return {name: source.file_of(name).name for name in source.entries if name in names}
