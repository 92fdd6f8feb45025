"""Extraction and splice of whole folders, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mixlab.merge._asked import Asked
from mixlab.merge._plan import MergePlan
from mixlab.merge.backbone._asked import extraction, splicing
from mixlab.merge.display._sizes import parse_size
from mixlab.merge.display._table import merge_table
from mixlab.merge.running._execute import execute, thread_number
from mixlab.merge.running._output import check_out
from mixlab.merge.running._report import MergeReport, Progress
from mixlab.merge.running._verify import Sample, verify

# As files of repositories on the hub.
_SHARD = 5_000_000_000


def extract_checkpoint(
    vlm: str | Path,
    out: str | Path,
    *,
    reference: str | Path | None = None,
    threads: int | None = None,
    max_shard_size: int | str | None = None,
    progress: Callable[[Progress], None] | None = None,
    allow_nonfinite: bool = False,
    check: Sample | None = None,
) -> MergeReport:
    """Write the language model of a VLM's folder as a stand-alone causal LM.

        extract_checkpoint("models/my-vlm", "models/my-vlm-backbone")

    Weights stream from file to file in their stored dtype; embeddings and head are the VLM's own.
    Tokenizer, generation config and chat template are carried over. If it is stopped, nothing is
    left at `out`, and it can be started again.

    Args:
        vlm: a folder, or a hub id.
        out: a folder that does not exist, or is empty; it appears whole or not at all.
        reference: a language model's folder; the class of its config is written in, where several
            are possible. By default the text config's own class, or the one that it is kin to.
        threads: by default one a core, at most 8.
        max_shard_size: such as `"5GB"` (the default), or bytes.
        progress: called about ten times a second.
        allow_nonfinite: count NaN and infinite values instead of stopping at them.
        check: `verify` so many tensors, or "all", afterwards.

    Raises:
        MixlabError: it is no VLM, its tensors cannot all be placed, or the output is refused.
    """
    limit = _SHARD if max_shard_size is None else parse_size(max_shard_size)
    return _run(
        extraction(vlm, reference), Path(out), check,
        threads=threads, max_shard_size=limit, progress=progress, allow_nonfinite=allow_nonfinite,
    )  # fmt: skip


def splice_checkpoint(
    vlm: str | Path,
    lm: str | Path,
    out: str | Path,
    *,
    threads: int | None = None,
    max_shard_size: int | str | None = None,
    progress: Callable[[Progress], None] | None = None,
    allow_nonfinite: bool = False,
    link: bool = False,
    check: Sample | None = None,
) -> MergeReport:
    """Write a VLM's folder with the language model of another folder in the place of its own.

    All else of the VLM stays bit for bit, as do rows of its embeddings and head that the language
    model has not. After `extract_checkpoint` it gives the same bytes of every tensor.

    Args:
        vlm: a folder, or a hub id.
        lm: a causal LM of the same shape, as `extract_checkpoint` writes it.
        out: a folder that does not exist, or is empty; it appears whole or not at all.
        max_shard_size: such as `"5GB"`, or bytes; files as the VLM's by default.
        link: hard-link files in which nothing changes.
        threads, progress, allow_nonfinite, check: as in `extract_checkpoint`.

    Raises:
        MixlabError: the two do not fit (all differences at once), or the output is refused.
    """
    limit = None if max_shard_size is None else parse_size(max_shard_size)
    return _run(
        splicing(vlm, lm), Path(out), check,
        threads=threads, max_shard_size=limit, progress=progress, allow_nonfinite=allow_nonfinite,
        link=link,
    )  # fmt: skip


def preview_backbone(
    vlm: str | Path,
    out: str | Path,
    *,
    reference: str | Path | None = None,
    lm: str | Path | None = None,
) -> str:
    """The table of what `extract_checkpoint`, or with `lm` `splice_checkpoint`, would do.

    Raises:
        MixlabError: what they would refuse.
    """
    recipe = extraction(vlm, reference) if lm is None else splicing(vlm, lm)
    with Asked(recipe).plan() as plan:
        check_out(Path(out), plan.folders)
        return merge_table(plan, threads=thread_number(None))


def _run(recipe: Mapping[str, str], out: Path, check: Sample | None, **options: Any) -> MergeReport:
    def run(plan: MergePlan, folder: Path) -> MergeReport:
        report = execute(plan, folder, **options)
        if check is None:
            return report
        checked = verify(
            folder, plan, sample=check,
            threads=options["threads"], progress=options["progress"],
        )  # fmt: skip
        return replace(report, checks=tuple(checked.lines()))

    return Asked(recipe).run(out, run)
