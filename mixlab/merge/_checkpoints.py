"""Whole checkpoints merged, in one call: recipe in, finished folder out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mixlab.merge._asked import Asked
from mixlab.merge._plan import MergePlan
from mixlab.merge.display._sizes import parse_size
from mixlab.merge.display._table import merge_table
from mixlab.merge.running._execute import execute, thread_number
from mixlab.merge.running._output import (
    check_out,
    check_room,
    output_shards,
    untouched_shards,
)
from mixlab.merge.running._report import MergeReport, Progress
from mixlab.merge.running._verify import Sample, verify


def merge_checkpoints(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    models: Mapping[str, str | Path] | None = None,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    threads: int | None = None,
    max_shard_size: int | str | None = None,
    progress: Callable[[Progress], None] | None = None,
    allow_nonfinite: bool = False,
    link: bool = False,
    check: Sample | None = None,
) -> MergeReport:
    """Merge model folders after a recipe; mergekit's YAML files are taken as they are.

        merge_checkpoints("audit-ties-0.2", "merged", models={"vlm": "a", "reference": "b"})

    Everything that can be refused from headers and configs is refused before a byte is written.

    Args:
        recipe: a file, its content, or the name of a packaged recipe (`named_recipes`).
        out: a folder that does not exist, or is empty; it appears whole or not at all.
        models: folder of each placeholder of the recipe.
        overrides: `a.b=c`, each changes one value of the recipe.
        seed: of random methods; the recipe's, or 0.
        threads: by default one a core, at most 8. No bit of the output depends on it.
        max_shard_size: such as `"5GB"`, or bytes; files as the target's by default.
        progress: called about ten times a second.
        allow_nonfinite: count NaN and infinite values instead of stopping at them.
        link: hard-link files in which nothing changes.
        check: `verify` so many tensors, or "all", after the merge.

    Returns:
        What was done, see `MergeReport`.

    Raises:
        MixlabError: the recipe, a model or the output folder is refused; or the merge failed, and
            nothing is left at `out`.
    """
    out = Path(out)
    limit = None if max_shard_size is None else parse_size(max_shard_size)

    def run(plan: MergePlan, folder: Path) -> MergeReport:
        report = execute(
            plan,
            folder,
            threads=threads,
            max_shard_size=limit,
            progress=progress,
            allow_nonfinite=allow_nonfinite or bool(plan.recipe.get("allow_nonfinite")),
            link=link,
        )
        if check is None or folder != out:
            return report
        try:
            checked = verify(out, plan, sample=check, threads=threads, progress=progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{out} is finished and stays; it was not verified") from None
        return replace(report, checks=tuple(checked.lines()))

    return Asked(recipe, models or {}, overrides, seed).run(out, run)


def preview_merge(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    models: Mapping[str, str | Path] | None = None,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    threads: int | None = None,
    max_shard_size: int | str | None = None,
    link: bool = False,
    full: bool = False,
) -> str:
    """The table of what `merge_checkpoints` would do, from headers and configs alone.

    Args:
        out: checked too, if given, and the room on its disk.
        full: a line for every tensor, instead of one for all layers.

    Raises:
        MixlabError: what `merge_checkpoints` would refuse.
    """
    limit = None if max_shard_size is None else parse_size(max_shard_size)
    with Asked(recipe, models or {}, overrides, seed).plan() as plan:
        if out is not None:
            check_out(Path(out), plan.folders)
            shards = output_shards(plan, limit)
            check_room(Path(out), shards, untouched_shards(plan, shards), link=link)
        return merge_table(plan, full=full, threads=thread_number(threads))
