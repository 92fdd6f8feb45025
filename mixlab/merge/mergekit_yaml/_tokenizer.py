"""The output's tokenizer, and which row of each model a token has."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mixlab.merge.mergekit_yaml._references import Reference
from mixlab.merge.mergekit_yaml._settings import (
    MergekitSettings,
    ModelToken,
    TokenizerSettings,
    Zero,
)
from mixlab.merge.planning._vocabulary import GivenRow
from mixlab.spec import MixlabError, nearest

# Files that a tokenizer consists of; the output's own replace the target's.
TOKENIZER_FILES = frozenset(
    {
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model",
        "sentencepiece.bpe.model", "chat_template.jinja", "chat_template.json",
    }
)  # fmt: skip


@dataclass(frozen=True)
class BuiltTokenizer:
    """A tokenizer for the output.

    Args:
        tokenizer: of transformers.
        tokens: how many it has; ids count from 0 without gaps.
        padding: rows that `pad_to_multiple_of` adds.
        rows: model -> int64 [tokens], its row for each token, -1 for none.
        vocabularies: model -> token -> id, as that model has it.
    """

    tokenizer: Any
    tokens: int
    padding: int
    rows: Mapping[Reference, torch.Tensor]
    vocabularies: Mapping[Reference, Mapping[str, int]]

    def moved(self, model: Reference) -> dict[int, int]:
        """Id in a model -> id in the output, of the tokens that both have."""
        ids = self.tokenizer.get_vocab()
        own = self.vocabularies.get(model, {})
        return {row: ids[token] for token, row in own.items() if token in ids}

    def given(self, settings: MergekitSettings, models: Sequence[Reference]) -> dict[int, GivenRow]:
        """The `tokens:` of a document for a group of models.

        Raises:
            MixlabError: a token is not in the output's vocabulary, or its row is asked for from a
                model that is not in the group, or has no such token.
        """
        asked = (settings.tokenizer.tokens if settings.tokenizer else None) or {}
        ids = self.tokenizer.get_vocab() if asked else {}
        found = {}
        for token, wanted in asked.items():
            source = wanted.source
            if token not in ids:
                raise MixlabError(f"tokenizer.tokens: {token!r} is not in the output's tokenizer")
            if source is None or isinstance(source, Zero):
                found[ids[token]] = GivenRow(zero=source is not None, force=wanted.force)
                continue
            model = source.model if isinstance(source, ModelToken) else source
            if model not in models:
                raise MixlabError(
                    f"tokenizer.tokens: {token!r} takes its row from {model}, which is not merged"
                    f"{nearest(model, models)}"
                )
            row = None
            if isinstance(source, ModelToken):
                own = self.vocabularies.get(model, {})
                row = source.token_id if source.token is None else own.get(source.token)
                if row is None:
                    raise MixlabError(
                        f"tokenizer.tokens: {token!r} takes the row of {source.token!r}, which "
                        f"{model} lacks"
                    )
            found[ids[token]] = GivenRow(models.index(model), row, force=wanted.force)
        return found


def build_tokenizer(
    settings: MergekitSettings, folders: Mapping[Reference, Path], sizes: Mapping[Reference, int]
) -> BuiltTokenizer | None:
    """The tokenizer that a document asks for, built by mergekit; None where it asks for none.

    Args:
        folders: of every model, the base first.
        sizes: rows of every model's embeddings, which bound the rows that exist.

    Raises:
        MixlabError: a tokenizer cannot be loaded or joined.
    """
    choice = settings.tokenizer.source if settings.tokenizer else settings.tokenizer_source
    if choice is None:
        return None
    from mergekit.common import ModelPath, ModelReference
    from mergekit.tokenizer.build import build_tokenizer as build

    # Given as mappings, so that mergekit does not take `+` and `@` in paths apart.
    theirs = {
        model: ModelReference(model=ModelPath(path=str(folder)))
        for model, folder in folders.items()
    }
    given = settings.tokenizer or TokenizerSettings()
    try:
        with contextlib.redirect_stderr(io.StringIO()), tempfile.TemporaryDirectory() as joined:
            source: Any = choice if isinstance(choice, str) else theirs[choice]
            if choice == "union":
                _join(folders, sizes).save_pretrained(joined)
                source = ModelReference(model=ModelPath(path=joined))
            info = build(
                base_model=theirs[settings.base_model] if settings.base_model else None,
                referenced_models=list(theirs.values()),
                tokenizer_source=source,
                trust_remote_code=False,
                add_tokens=list(given.tokens or ()),
            )
    except Exception as error:  # transformers and tokenizers raise many unrelated classes
        raise MixlabError(
            f"the output's tokenizer cannot be built ({type(error).__name__}: {error}); remove "
            "tokenizer_source: to keep the first model's"
        ) from error
    ids = info.tokenizer.get_vocab()
    tokens = len(ids)
    if sorted(ids.values()) != list(range(tokens)):
        raise MixlabError(
            f"the output's tokenizer has {tokens} tokens with ids up to {max(ids.values())}; ids "
            "with gaps have no rows to go with them"
        )
    rows = {}
    for model, reference in theirs.items():
        own = torch.full((tokens,), -1, dtype=torch.int64)
        pairs = info.permutations[reference]
        own[list(pairs)] = torch.tensor(list(pairs.values()), dtype=torch.int64)
        rows[model] = torch.where(own < sizes.get(model, 0), own, -1)
    return BuiltTokenizer(
        info.tokenizer,
        tokens,
        -tokens % (given.pad_to_multiple_of or 1),
        rows,
        {
            model: info.original_vocabs[reference]
            for model, reference in theirs.items()
            if reference in info.original_vocabs
        },
    )


def _join(folders: Mapping[Reference, Path], sizes: Mapping[Reference, int]) -> Any:
    """The first model's tokenizer with the tokens of the others after its own, by their ids.

    mergekit adds them in the order of a hash map, so that its ids differ from run to run.
    """
    from mergekit.common import ModelPath
    from mergekit.tokenizer.build import get_stripped_tokenizer
    from transformers import AutoTokenizer

    first, *others = folders
    joined = get_stripped_tokenizer(ModelPath(path=str(folders[first])))
    plain: dict[str, None] = {}
    special: dict[str, Any] = {}
    known = joined.get_vocab()
    for model in (first, *others):
        tokenizer = joined if model == first else AutoTokenizer.from_pretrained(folders[model])
        rows = sizes.get(model, len(tokenizer))
        added = {
            info.content: info for at, info in tokenizer.added_tokens_decoder.items() if at < rows
        }
        for token, row in sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1]):
            if row >= rows:
                continue
            if token in added:
                special.setdefault(token, added[token])
            elif token not in known:
                plain.setdefault(token)
    for token in plain:
        if token not in special:
            joined.add_tokens(token)
    for info in special.values():
        joined.add_tokens(info)
    return joined


def save_tokenizer(tokenizer: Any, template: str | None, folder: Path) -> dict[str, Path]:
    """Write a built tokenizer under `folder`; name -> file of all that it consists of."""
    if template is not None:
        tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_file()}
