"""Whether two models mean the same by the rows of their vocabulary tables."""

from __future__ import annotations

from pathlib import Path

from mixlab.checkpoint import read_bytes, read_vocabulary

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
    return all(
        a.stat().st_size == b.stat().st_size and read_bytes(a) == read_bytes(b) for a, b in pairs
    )


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
