"""A finished merge checked by its marker alone: planned again, computed again, compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mixlab.merge._asked import Asked
from mixlab.merge._plan import MergePlan
from mixlab.merge.backbone._asked import is_backbone
from mixlab.merge.planning._folders import model_folder
from mixlab.merge.running._card import read_marker
from mixlab.merge.running._execute import execute
from mixlab.merge.running._report import Progress
from mixlab.merge.running._verify import Sample, VerifyReport, verify
from mixlab.spec import MixlabError, nearest

# Keys of a mergekit file under which models stand.
_MODEL_KEYS = ("model", "base_model", "lora", "path", "tokenizer_source", "source")


def verify_merge(
    out: str | Path,
    *,
    models: Mapping[str, str | Path] | None = None,
    sample: Sample = 16,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> VerifyReport:
    """`verify` a finished merge by the recipe that stands in its marker.

    Of a mergekit file of several documents, the outputs of the earlier ones are no more: they are
    made again beside `out`, which takes their time and disk, and removed in the end. They
    themselves can't be compared with anything but the output that follows from them.

    Args:
        out: the merge.
        models: new place of each input that moved, by the name that the recipe has for it.
        sample: how many mixed and how many kept tensors, or "all".
        seed: chooses them.
        threads, progress: as in `merge_checkpoints`.

    Raises:
        VerifyError: tensors differ, or transformers does not take the folder.
        MixlabError: `out` is no finished merge; or its inputs are not where they were (relative
            paths count from the working directory), with the names that `models` may give.
    """
    out, marker = Path(out), read_marker(out)
    recipe: dict[str, Any] = dict(marker["recipe"])
    filled = {name: str(folder) for name, folder in (models or {}).items()}
    mergekit = "merge_method" in recipe
    if mergekit:
        _check_names(filled, _mergekit_inputs(recipe))
        recipe = _moved(recipe, filled)
    asked = Asked(recipe, {} if mergekit else filled, seed=marker["seed"])

    def run(plan: MergePlan, folder: Path) -> VerifyReport | None:
        if folder != out:
            execute(
                plan,
                folder,
                threads=threads,
                progress=progress,
                allow_nonfinite=True,
                digests=False,
            )
            return None
        return verify(out, plan, sample=sample, seed=seed, threads=threads, progress=progress)

    with ExitStack() as opened:
        try:
            plan = opened.enter_context(asked.plan())
        except MixlabError as error:
            names = _mergekit_inputs(recipe) if mergekit else _own_inputs(recipe, filled)
            lost = [name for name in names if not _found(name)]
            if not lost:
                raise
            raise MixlabError(
                f"{out}: inputs are not where they were: {', '.join(lost)}. Give the new place of "
                f"each with --model {lost[0]}=DIR, in Python models={{{lost[0]!r}: DIR}}\n{error}"
            ) from None
        report = None if "stages" in recipe else run(plan, out)
    if report is None:
        from mixlab.merge.mergekit_yaml import run_mergekit

        report = run_mergekit(recipe, out, run, seed=marker["seed"])
    assert report is not None
    return report


def _own_inputs(recipe: Mapping[str, Any], filled: Mapping[str, str]) -> list[str]:
    if is_backbone(recipe):
        return [filled.get(given, given) for given in recipe.values()]
    from mixlab.merge.planning._recipe import load_recipe
    from mixlab.merge.planning._recipe_checks import places

    named = (filled.get(given, given) for _, given in places(load_recipe(recipe)))
    return list(dict.fromkeys(named))


def _mergekit_inputs(recipe: Mapping[str, Any]) -> list[str]:
    from mixlab.merge.mergekit_yaml import read_documents
    from mixlab.merge.mergekit_yaml._slices import references

    documents = read_documents(recipe)
    made = {document.settings.name for document in documents[:-1]}
    found: dict[str, None] = {}
    for document in documents:
        for one in references(document.settings):
            parts = [one.model, *([one.adapter_place] if one.adapter else [])]
            found |= {part: None for part in parts if part not in made}
    return list(found)


def _check_names(filled: Mapping[str, str], names: list[str]) -> None:
    for name in filled:
        if name not in names:
            raise MixlabError(
                f"--model {name}={filled[name]}: the merge has no input {name!r}"
                f"{nearest(name, names)}; its inputs are {', '.join(names)}"
            )


def _moved(recipe: Any, filled: Mapping[str, str], key: str = "") -> Any:
    """A mergekit file's data with other folders, wherever it names them."""
    if isinstance(recipe, Mapping):
        return {k: _moved(value, filled, str(k)) for k, value in recipe.items()}
    if isinstance(recipe, list):
        return [_moved(value, filled, key) for value in recipe]
    if key not in _MODEL_KEYS or not isinstance(recipe, str):
        return recipe
    if recipe in filled:
        return filled[recipe]
    for at in (at for at, letter in enumerate(recipe) if letter == "+"):
        model, adapter = recipe[:at], recipe[at + 1 :]
        if model in filled or adapter in filled:
            return f"{filled.get(model, model)}+{filled.get(adapter, adapter)}"
    return recipe


def _found(name: str) -> bool:
    try:
        return model_folder(name).is_dir()
    except MixlabError:
        return False
