"""The plan that puts a language model back into a VLM's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mixlab.checkpoint import TensorEntry, TensorSource, count_layers, is_vocabulary, tensor_place
from mixlab.merge._plan import Input, MergePlan, TensorPlan
from mixlab.merge.backbone._asked import splicing
from mixlab.merge.backbone._opening import Opened, open_model
from mixlab.merge.planning._config import output_config
from mixlab.merge.planning._configs import compare_functions
from mixlab.merge.planning._language import first_rows
from mixlab.merge.planning._misfits import FLOATS
from mixlab.merge.planning._mistakes import Mistakes
from mixlab.merge.planning._pairing import is_buffer
from mixlab.merge.planning._side_files import side_files
from mixlab.merge.planning._tokenizers import compare_tokenizers

_FIT = "splice a language model of the VLM's shape, such as `mixlab backbone extract` writes"


def plan_splice(vlm: str | Path, lm: str | Path) -> MergePlan:
    """The VLM's tensors, with those of its language model taken from `lm`.

    Returns:
        A plan whose sources are open.

    Raises:
        MixlabError: all in which the two do not fit.
    """
    from mixlab.models.layout import present

    target = open_model(vlm, "vlm", vlm=True)
    try:
        other = open_model(lm, "lm", vlm=False)
    except BaseException:
        target.checkpoint.close()
        raise
    mistakes, warnings = Mistakes(), list[str]()
    try:
        compare_functions(
            (target.folder, target.config), (other.folder, other.config), mistakes, warnings
        )
        mistakes.stop("the two do not fit")
        source = present(other.checkpoint, other.layout, target.layout)
        tensors = _Splice(target, other, source, mistakes).all()
        wrong, told = compare_tokenizers(target.folder, other.folder)
        for mistake in wrong:
            mistakes.add(
                mistake,
                "mixlab merge --vlm … --reference … --alpha 0 pairs rows by token",
            )
        mistakes.stop("the two do not fit")
    except BaseException:
        target.checkpoint.close()
        other.checkpoint.close()
        raise
    return MergePlan(
        sources=(target.checkpoint, source),
        folders=(target.folder, other.folder),
        target=0,
        tensors=tensors,
        seed=0,
        config=output_config(target.config, tied=target.heads().config_tied),
        recipe=splicing(vlm, lm),
        warnings=(*warnings, *told),
        side_files=side_files(target.folder),
        facts=(f"{target.layout.model_type}; {target.layout.how}",),
        title=f"{target.folder.resolve().name} with the language model of "
        f"{other.folder.resolve().name}",
    )


class _Splice:
    """Decides tensor by tensor; what does not fit goes to `mistakes`."""

    def __init__(
        self, target: Opened, other: Opened, source: TensorSource, mistakes: Mistakes
    ) -> None:
        self._target, self._other, self._source = target, other, source
        self._mistakes = mistakes
        self._layers = count_layers(target.checkpoint.entries)
        self._heads = target.heads()
        self._first_rows = first_rows(target.layout)

    def all(self) -> tuple[TensorPlan, ...]:
        """Every tensor of the VLM in its order."""
        language = set(self._target.layout.backbone)
        return tuple(
            self._spliced(entry) if name in language else self._kept(entry, "the VLM's")
            for name, entry in self._target.checkpoint.entries.items()
        )

    def _spliced(self, entry: TensorEntry) -> TensorPlan:
        its = self._source.entries.get(entry.name)
        if its is None and entry.name == self._heads.head and self._heads.table is not None:
            its = self._source.entries.get(self._heads.table)
        if its is None:
            if is_buffer(entry.name):
                return self._kept(entry, "buffer, given by the config")
            if self._first_rows.get(entry.name):
                return self._kept(entry, "rows that the language model has not")
            self._mistakes.add(f"{entry.name}: {self._other.folder} has no tensor for it", _FIT)
            return self._kept(entry, "no counterpart")
        if its.dtype != entry.dtype and not {its.dtype, entry.dtype} <= FLOATS:
            self._mistakes.add(f"{entry.name}: {entry.dtype} in the VLM, {its.dtype} in the other")
        if its.shape == entry.shape:
            kept = self._kept(entry, "spliced")
            return replace(kept, target=Input(1, its))
        fewer = is_vocabulary(entry.name) and its.shape[1:] == entry.shape[1:]
        if not fewer or its.shape[0] > entry.shape[0]:
            self._mistakes.add(
                f"{entry.name}: {list(entry.shape)} in {self._target.folder}, {list(its.shape)} in "
                f"{self._other.folder} ({its.name})",
                _FIT,
            )
            return self._kept(entry, "does not fit")
        rows = its.shape[0]
        told = f"spliced: rows 0 to {rows - 1}; the {entry.shape[0] - rows} beyond are the VLM's"
        kept = self._kept(entry, told)
        return replace(kept, target=Input(1, its), rows=rows, rest=Input(0, entry))

    def _kept(self, entry: TensorEntry, because: str) -> TensorPlan:
        return TensorPlan(
            name=entry.name,
            action="keep",
            because=because,
            dtype=entry.dtype,
            shape=entry.shape,
            target=Input(0, entry),
            layer=tensor_place(entry.name).layer,
            layers=self._layers,
        )
