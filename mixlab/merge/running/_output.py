"""The output folder: what may not be one, and which shards are taken over whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mixlab.checkpoint import Checkpoint, Shard, TensorSource
from mixlab.merge._plan import MergePlan
from mixlab.spec import MixlabError


def check_out(out: Path, folders: Sequence[Path]) -> None:
    """Refuse an output that holds something, or that overlaps with an input.

    Raises:
        MixlabError: saying which, and how to mend it.
    """
    real = out.resolve()
    for folder in folders:
        given = folder.resolve()
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
            "remove it or choose another output folder"
        )


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
