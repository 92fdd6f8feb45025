"""From a mergekit document to a plan, from headers and configs alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from mixlab.merge._method import get_method, method_names
from mixlab.merge._plan import MergePlan
from mixlab.merge.mergekit_yaml._decisions import Decisions
from mixlab.merge.mergekit_yaml._document import Document
from mixlab.merge.mergekit_yaml._models import Opened, open_model, says_tied
from mixlab.merge.mergekit_yaml._parameters import Resolver
from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._slices import slices_of
from mixlab.merge.mergekit_yaml._templates import find_template, replace_template
from mixlab.merge.mergekit_yaml._token_ids import follow_generation, follow_tokens
from mixlab.merge.mergekit_yaml._tokenizer import (
    TOKENIZER_FILES,
    BuiltTokenizer,
    build_tokenizer,
    save_tokenizer,
)
from mixlab.merge.planning._config import check_token_ids, output_config
from mixlab.merge.planning._remapped import RemappedSource
from mixlab.merge.planning._side_files import side_files
from mixlab.merge.planning._tokenizers import compare_tokenizers
from mixlab.spec import MixlabError, nearest


def plan_document(
    document: Document,
    stages: Mapping[str, Path | MergePlan],
    aside: Path,
    seed: int = 0,
) -> MergePlan:
    """Decide for every tensor what becomes of it, as mergekit would.

    Inputs are read in their stored dtype and mixed in float32 (float64 if one of them is);
    mergekit casts them to `dtype` first and computes in it. The output is rounded once, to
    `out_dtype`, else `dtype`, else the widest of the tensor's inputs; so float32 results equal
    mergekit's, half-precision ones are nearer to the exact value.

    Config, tokenizer and side files are those of `base_model`, else of the first model (mergekit
    takes any of them, by the order of a set).

    Args:
        stages: names of earlier documents -> their outputs, or plans of these.
        aside: an empty folder for files made for the output, kept until the plan was carried out.
        seed: of the random methods; mergekit has none in its files.

    Returns:
        A plan whose sources are open; whoever executes it closes them.

    Raises:
        MixlabError: a model or a tensor is missing, shapes differ, or a setting does not hold; a
            mistake of the file comes with its line.
    """
    settings = document.settings
    if settings.merge_method not in method_names():
        raise document.located.error(
            ("merge_method",),
            f"unknown merge_method {settings.merge_method!r}"
            f"{nearest(settings.merge_method, method_names())}",
        )
    method = get_method(settings.merge_method)
    if method.extra:
        raise document.located.error(
            ("merge_method",),
            f"{method.name} needs further tensors ({method.extra}), which a mergekit file cannot "
            "name; write a recipe with `method:` instead",
        )
    parts = slices_of(document)
    resolver = Resolver(document, method)
    resolver.check(parts)
    places: dict[Reference, tuple[str | int, ...]] = {}
    for source in (source for part in parts for source in part.sources):
        places.setdefault(source.model, source.path)
    for part in parts:
        if part.base is not None:
            places.setdefault(part.base, ("base_model",))
    models: dict[Reference, Opened] = {}
    try:
        for model in places:
            # With the document's name: two stages would else draw the same random bits.
            key = (
                f"{settings.name}/model-{len(models)}" if settings.name else f"model-{len(models)}"
            )
            try:
                models[model] = open_model(model, len(models), key, stages)
            except MixlabError as error:
                raise document.located.error(places[model], str(error)) from error
        target = models[settings.base_model or next(iter(places))]
        tokenizer = _tokenizer(document, models, stages)
        decisions = Decisions(document, method, parts, models, target, resolver, tokenizer)
        tensors = decisions.all()
        warnings = [*resolver.warnings, *decisions.warnings]
        if document.unused:
            warnings.append(
                f"not carried out, since the output does not need it: {', '.join(document.unused)}"
            )
        if tokenizer is None:
            warnings += _vocabularies(target, models.values(), stages)
        warnings += [f"filter {word!r} fits no tensor" for word in resolver.unmatched(parts)]
        files, told = _files(document, target, list(models.values()), tokenizer, aside)
        has_head = any(
            tensor.name == decisions.head_name for tensor in tensors if tensor.action != "drop"
        )
        config = output_config(
            target.config,
            dtype=settings.out_dtype or settings.dtype,
            tied=_tied(target, has_head),
            vocab_size=None if tokenizer is None else tokenizer.tokens + tokenizer.padding,
            layers=decisions.blocks_of_config(),
        )
        if tokenizer is not None:
            config = follow_tokens(config, tokenizer.moved(target.reference))
            warnings += check_token_ids(config)
        return MergePlan(
            sources=tuple(
                RemappedSource(model.source, decisions.remaps[model.index])
                if model.index in decisions.remaps
                else model.source
                for model in models.values()
            ),
            folders=tuple(model.folder for model in models.values()),
            target=target.index,
            tensors=tuple(tensors),
            seed=seed,
            config=config,
            recipe=dict(document.located.data),
            warnings=tuple(dict.fromkeys([*warnings, *told])),
            side_files=files,
        )
    except BaseException:
        for opened in models.values():
            for closable in opened.closables:
                closable.close()
        raise


def _vocabularies(target: Opened, models: Iterable[Opened], stages: Collection[str]) -> list[str]:
    """What is to be said of rows that are averaged by their number."""
    told = []
    for model in models:
        if model is target or not (model.folder.is_dir() and target.folder.is_dir()):
            continue
        wrong, doubtful = compare_tokenizers(target.folder, model.folder)
        # What cannot be compared for an earlier output was told of its inputs.
        told += doubtful if not {target.reference.path, model.reference.path} & {*stages} else []
        if wrong:
            told.append(
                f"{model.reference} has other ids for some tokens than {target.reference}, so that "
                "rows of different tokens are averaged, as mergekit does; tokenizer_source: union "
                "(or base) matches them by token"
            )
    return told


def _tied(target: Opened, has_head: bool) -> bool | None:
    """What the output's config must say of tying; None leaves what it says."""
    if has_head and (target.tied or says_tied(target.config)):
        return False
    if not has_head and not target.tied and target.head is not None:
        return True
    return None


def _tokenizer(
    document: Document, models: Mapping[Reference, Opened], stages: Mapping[str, Path | MergePlan]
) -> BuiltTokenizer | None:
    from mixlab.merge.planning._folders import model_folder

    settings = document.settings
    choice = settings.tokenizer.source if settings.tokenizer else settings.tokenizer_source
    if choice is None:
        return None
    place = "tokenizer" if settings.tokenizer else "tokenizer_source"
    for model in models:
        if isinstance(stages.get(model.path), MergePlan):
            raise document.located.error(
                (place,),
                f"the tokenizer of {model.path!r}, which is yet to be made, cannot be joined with "
                "others; name the tokenizer in the document that makes it",
            )
    # The base first, since mergekit takes the first for the base where none is named.
    order = [settings.base_model] if settings.base_model else []
    folders = {model: models[model].folder for model in dict.fromkeys([*order, *models])}
    if isinstance(choice, Reference) and choice not in folders:
        stage = stages.get(choice.path)
        try:
            folders[choice] = stage if isinstance(stage, Path) else model_folder(choice.model)
        except MixlabError as error:
            told = f"expected union, base or a model: {error}"
            raise document.located.error((place,), told) from error
    sizes = {
        model: opened.source.entries[opened.table].shape[0]
        for model, opened in models.items()
        if opened.table is not None
    }
    try:
        return build_tokenizer(settings, folders, sizes)
    except MixlabError as error:
        raise document.located.error((place,), str(error)) from error


def _files(
    document: Document,
    target: Opened,
    models: list[Opened],
    tokenizer: BuiltTokenizer | None,
    aside: Path,
) -> tuple[dict[str, Path], list[str]]:
    files: dict[str, Path] = dict(side_files(target.folder)) if target.folder.is_dir() else {}
    template = None
    choice = document.settings.chat_template
    if choice:
        try:
            template = find_template(choice, [model.folder for model in models])
        except (MixlabError, ValueError) as error:
            raise document.located.error(("chat_template",), str(error)) from error
    if tokenizer is not None:
        files = {name: path for name, path in files.items() if name not in TOKENIZER_FILES}
        files.update(save_tokenizer(tokenizer.tokenizer, template, aside))
        files = follow_generation(files, tokenizer.moved(target.reference), aside)
    elif template is not None:
        files = replace_template(files, template, aside)
    told = [] if template or not choice else [f"chat_template {choice!r}: no model has a template"]
    return files, told
