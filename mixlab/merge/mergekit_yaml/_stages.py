"""A mergekit file as stages: one a document, the last makes the output."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from mixlab.checkpoint import LoraSource, tensor_size
from mixlab.merge._plan import MergePlan
from mixlab.merge.mergekit_yaml._document import Document, read_documents
from mixlab.merge.mergekit_yaml._planning import plan_document
from mixlab.merge.planning._remapped import RemappedSource
from mixlab.spec import Located, MixlabError
from mixlab.store import scratch_folder

Source = Mapping[str, Any] | Located | str | os.PathLike[str]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Stage:
    """One document and its plan.

    Args:
        name: `name:` of the document; None for a file of one document and for the last.
        document: as read.
        plan: of a later stage, from the plans of earlier ones: it can be shown but not carried out.
        ready: whether it can be carried out.
    """

    name: str | None
    document: Document
    plan: MergePlan
    ready: bool


@contextmanager
def plan_mergekit(
    source: Source, overrides: Iterable[str] = (), *, seed: int = 0
) -> Iterator[list[Stage]]:
    """Plan every document of a mergekit file, from headers and configs alone.

    Yields:
        The stages in the order in which they are carried out. When the block ends, files are
        closed and what was made for the output (tokenizer, chat template) is removed.

    Raises:
        MixlabError: every mistake, with the line in the file where there is one.
    """
    documents = read_documents(source, overrides)
    stages: list[Stage] = []
    with tempfile.TemporaryDirectory(prefix="mixlab-") as aside:
        try:
            for index, document in enumerate(documents):
                folder = Path(aside) / str(index)
                folder.mkdir()
                earlier = {str(stage.name): stage.plan for stage in stages}
                plan = plan_document(document, earlier, folder, seed)
                last = index == len(documents) - 1
                if last and stages:
                    told = tuple(_told(stage) for stage in stages)
                    plan = replace(
                        plan, recipe=_recipe(documents), warnings=(*told, *plan.warnings)
                    )
                name = None if last else document.settings.name
                stages.append(Stage(name, document, plan, not _needs(document, earlier)))
            yield stages
        finally:
            for stage in stages:
                close_sources(stage.plan)


def run_mergekit(
    source: Source,
    out: str | os.PathLike[str],
    run: Callable[[MergePlan, Path], Result],
    overrides: Iterable[str] = (),
    *,
    seed: int = 0,
) -> Result:
    """Carry out a mergekit file; outputs of earlier documents stand beside `out` until the end.

    All documents are planned before the first is carried out, so that a mistake in a later one
    costs no time. mergekit-multi keeps intermediate outputs and trusts those it finds; here they
    are made anew.

    Args:
        run: carries out one plan into a folder.

    Returns:
        What `run` returned for the output.

    Raises:
        MixlabError: as `plan_mergekit`, or whatever `run` raises.
    """
    with plan_mergekit(source, overrides, seed=seed) as stages:
        *earlier, last = stages
        if not earlier:
            return run(last.plan, Path(out))
        with scratch_folder(out) as scratch:
            made: dict[str, Path] = {}
            for index, stage in enumerate(earlier):
                folder = scratch / str(stage.name)
                aside = scratch / f".files-{index}"
                try:
                    _run(stage, folder, run, made, aside, seed, stage.plan.recipe)
                except MixlabError as error:
                    if type(error) is not MixlabError or str(folder) not in str(error):
                        raise
                    # Nobody knows the folder aside; it is gone when the message is read.
                    told = str(error).replace(str(folder), f"{out}: document {stage.name}")
                    raise MixlabError(told) from error
                made[str(stage.name)] = folder
            return _run(last, Path(out), run, made, scratch / ".files", seed, last.plan.recipe)


def close_sources(plan: MergePlan) -> None:
    """Close the files of a plan's sources; what is closed already stays so."""
    for source in plan.sources:
        inner: Any = source
        while inner is not None:
            if hasattr(inner, "close"):
                inner.close()
            inner = inner.base if isinstance(inner, LoraSource | RemappedSource) else None


def _run(
    stage: Stage,
    out: Path,
    run: Callable[[MergePlan, Path], Result],
    made: Mapping[str, Path],
    aside: Path,
    seed: int,
    recipe: Mapping[str, Any],
) -> Result:
    if stage.ready:
        return run(stage.plan, out)
    aside.mkdir()
    plan = replace(plan_document(stage.document, made, aside, seed), recipe=recipe)
    try:
        return run(plan, out)
    finally:
        close_sources(plan)


def _needs(document: Document, earlier: Mapping[str, MergePlan]) -> bool:
    from mixlab.merge.mergekit_yaml._slices import references

    return any(reference.path in earlier for reference in references(document.settings))


def _told(stage: Stage) -> str:
    size = sum(tensor_size(tensor.dtype, tensor.shape) for tensor in stage.plan.written)
    counts = ", ".join(f"{count} {action}" for action, count in stage.plan.counts().items())
    return (
        f"{stage.name} ({stage.document.settings.merge_method}: tensors {counts}) is made before, "
        f"beside the output, and removed at the end; it needs {size:,} bytes of disk"
    )


def _recipe(documents: list[Document]) -> dict[str, Any]:
    """The last document as it stands, the others below `stages`."""
    *earlier, last = documents
    recipe = dict(last.located.data)
    if earlier:
        recipe["stages"] = [dict(document.located.data) for document in earlier]
    return recipe
