"""Whether two models mean the same by the rows of their vocabulary tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mixlab.spec import MixlabError

_LIMIT = 200_000_000
_SHOWN = 3


def compare_tokenizers(target: Path, other: Path) -> tuple[list[str], list[str]]:
    """Compare token ids by the JSON files of two model folders; no tokenizer is run.

    Returns:
        Mistakes (a token has different ids, so that rows of other tokens would be averaged), and
        warnings (ids cannot be compared, or stand for other tokens, or only one side has them).

    Raises:
        MixlabError: a tokenizer file is not valid.
    """
    if same_tokenizer(target, other):
        return [], []
    mine, its = (read_vocabulary(folder) for folder in (target, other))
    if mine is None or its is None:
        lacking = " and ".join(str(f) for f, v in ((target, mine), (other, its)) if v is None)
        return [], [
            f"token ids were not compared: no tokenizer.json or vocab.json in {lacking}; rows of "
            "the embeddings are averaged by their number"
        ]
    moved = [token for token, row in mine.items() if its.get(token, row) != row]
    if moved:
        shown = ", ".join(f"{t!r} is {mine[t]} and {its[t]}" for t in moved[:_SHOWN])
        return [
            f"{len(moved)} tokens have other ids in {target} than in {other} ({shown}), so that "
            "rows of different tokens would be averaged; leave the embeddings and lm_head out "
            "with `scope:`, or bring both to one vocabulary first"
        ], []
    return [], _differing(mine, its, target, other)


def same_tokenizer(target: Path, other: Path) -> bool:
    """Whether both folders have a tokenizer, in files of the same names and bytes."""
    files = [_files(folder) for folder in (target, other)]
    if not files[0] or [p.name for p in files[0]] != [p.name for p in files[1]]:
        return False
    pairs = zip(*files, strict=True)
    return all(a.stat().st_size == b.stat().st_size and _read(a) == _read(b) for a, b in pairs)


def _differing(mine: dict[str, int], its: dict[str, int], target: Path, other: Path) -> list[str]:
    by_row, mine_rows = {row: token for token, row in its.items()}, set(mine.values())
    renamed = [t for t, row in mine.items() if t not in its and row in by_row]
    lone = [t for t in mine if t not in its and mine[t] not in by_row]
    beyond = [t for t in its if t not in mine and its[t] not in mine_rows]
    told = []
    if renamed:
        shown = ", ".join(f"{t!r} for {by_row[mine[t]]!r}" for t in renamed[:_SHOWN])
        told.append(
            f"{len(renamed)} ids stand for other tokens in {target} than in {other} ({shown}); "
            "their rows are averaged all the same"
        )
    if lone or beyond:
        told.append(
            f"the tokenizers share {len(mine.keys() & its.keys())} tokens with equal ids; "
            f"{len(lone)} ids are only in {target}, {len(beyond)} only in {other}"
        )
    return told


def _files(folder: Path) -> list[Path]:
    names = ("tokenizer.json", "vocab.json", "added_tokens.json", "tokenizer.model")
    found = [folder / name for name in names if (folder / name).is_file()]
    return found[:1] if found and found[0].name == "tokenizer.json" else found


def read_vocabulary(folder: Path) -> dict[str, int] | None:
    """Token -> id, from tokenizer.json, else vocab.json and added_tokens.json.

    Returns:
        None where the folder has none of these files.

    Raises:
        MixlabError: a file is damaged, or holds no vocabulary.
    """
    path = folder / "tokenizer.json"
    try:
        if path.is_file():
            data = _json(path)
            model = data["model"]["vocab"]
            # A Unigram model lists (token, score) in the order of ids.
            tokens = (
                dict(model)
                if isinstance(model, dict)
                else {token: row for row, (token, _) in enumerate(model)}
            )
            tokens.update({t["content"]: t["id"] for t in data.get("added_tokens") or ()})
        elif (folder / "vocab.json").is_file():
            tokens = dict(_json(folder / "vocab.json"))
            added = folder / "added_tokens.json"
            tokens.update(_json(added) if added.is_file() else {})
        else:
            return None
        if not all(isinstance(t, str) and type(row) is int for t, row in tokens.items()):
            raise ValueError("tokens and ids are not text and whole numbers")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, MixlabError):
            raise
        raise MixlabError(
            f"{path}: no tokenizer that can be read ({type(error).__name__}: {error}); copy or "
            "download the file again"
        ) from error
    return tokens


def _json(path: Path) -> Any:
    if path.stat().st_size > _LIMIT:
        raise MixlabError(f"{path}: longer than {_LIMIT} bytes; is it the right file?")
    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise MixlabError(
            f"{path}: not valid JSON: {error}; copy or download the file again"
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MixlabError(f"{path}: cannot be read: {error.strerror}; mend that") from error
