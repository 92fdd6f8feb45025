"""The plan that takes the language model out of a VLM's folder."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.checkpoint import TensorEntry, tensor_place
from mixlab.merge._plan import Input, MergePlan, TensorPlan
from mixlab.merge.backbone._asked import extraction
from mixlab.merge.backbone._opening import Opened, open_model
from mixlab.merge.planning._configs import load_config
from mixlab.merge.planning._folders import model_folder
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._side_files import side_files
from mixlab.spec import MixlabError
from mixlab.store import read_json

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# Of a VLM alone: what reads images, and code of the model's own (which is never run here).
_LEFT = (
    "*processor_config.json", "modeling_*.py", "configuration_*.py", "processing_*.py",
    "image_processing_*.py", "video_processing_*.py",
)  # fmt: skip


def plan_extraction(vlm: str | Path, reference: str | Path | None = None) -> MergePlan:
    """Every tensor of the language model under the name that a causal LM saves it with.

    Returns:
        A plan whose sources are open.

    Raises:
        MixlabError: it is no VLM, or not every tensor of the causal LM is found in it.
    """
    from mixlab.models.layout import lm_layout, present

    opened = open_model(vlm, "vlm", vlm=True)
    try:
        config, cls = _lm(opened, reference)
        like = lm_layout(config, cls)
        source = present(opened.checkpoint, opened.layout, like)
        shapes = {name: entry.shape for name, entry in like.entries.items()}
        _check_complete(opened, set(source.entries), set(like.backbone))
        tensors = _tensors(source.entries, shapes, opened)
    except BaseException:
        opened.checkpoint.close()
        raise
    return MergePlan(
        sources=(source,),
        folders=(opened.folder,),
        target=0,
        tensors=tensors,
        seed=0,
        config=json.loads(config.to_json_string()),
        recipe=extraction(vlm, reference),
        side_files={
            name: path
            for name, path in side_files(opened.folder).items()
            if not any(fnmatchcase(name, pattern) for pattern in _LEFT)
        },
        facts=(f"{opened.layout.model_type} as {cls.__name__}; {opened.layout.how}",),
        title=f"Language model of {opened.folder.resolve().name}",
    )


def _lm(
    opened: Opened, reference: str | Path | None
) -> tuple[PretrainedConfig, type[PreTrainedModel]]:
    from mixlab.models.backbone import backbone_config

    other = None
    if reference is not None:
        folder = model_folder(reference)
        other = load_config(folder, read_json(folder / "config.json", "give a model folder"))
    config = load_config(opened.folder, opened.config)
    return backbone_config(config, opened.tied(), other)


def _tensors(
    entries: Any, shapes: dict[str, tuple[int, ...]], opened: Opened
) -> tuple[TensorPlan, ...]:
    mistakes = Mistakes()
    plans = [_plan(entry, shapes.get(name), mistakes, opened) for name, entry in entries.items()]
    mistakes.stop(f"{opened.folder}: the language model does not fit its causal class")
    return tuple(plans)


def _plan(
    entry: TensorEntry, wanted: tuple[int, ...] | None, mistakes: Mistakes, opened: Opened
) -> TensorPlan:
    place, rows, shape = tensor_place(entry.name), None, entry.shape
    because = "the language model's"
    if wanted is not None and wanted != shape:
        if len(wanted) == len(shape) > 0 and wanted[1:] == shape[1:] and wanted[0] < shape[0]:
            rows, shape = wanted[0], wanted
            because = f"rows 0 to {rows - 1}; the {entry.shape[0] - rows} beyond stay with the VLM"
        else:
            mistakes.add(
                f"{entry.name}: {list(shape)} in {opened.folder}, but config.json makes it "
                f"{list(wanted)}",
                "do weights and config belong together?",
            )
    return TensorPlan(
        name=entry.name,
        action="keep",
        because=because,
        dtype=entry.dtype,
        shape=shape,
        target=Input(0, entry),
        rows=rows,
        layer=place.layer,
    )


def _check_complete(opened: Opened, found: set[str], wanted: set[str]) -> None:
    """Refuse a language model of which parts are missing.

    Raises:
        MixlabError: naming them.
    """
    lost = sorted(wanted - found)
    if lost:
        shown = ", ".join(lost[:8]) + (f" and {len(lost) - 8} more" if len(lost) > 8 else "")
        raise MixlabError(
            f"{opened.folder}: {len(lost)} tensors of the language model are not in its files: "
            f"{shown}; is the download complete?"
        )
