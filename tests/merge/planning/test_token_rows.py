"""Rows of embeddings and heads are paired by token, and what has no pair stays the VLM's."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import write_model

from merge.merging import state_of
from mixlab.merge import merge_checkpoints, preview_merge
from mixlab.merge.planning._token_rows import align
from mixlab.spec import MixlabError

EMBED, HEAD = "model.language_model.embed_tokens.weight", "lm_head.weight"
WORDS = [f"w{i}" for i in range(40)]
Vocabulary = dict[str, int]


def numbered(words: list[str]) -> Vocabulary:
    return {word: row for row, word in enumerate(words)}


def shuffled(words: list[str], seed: int = 0) -> Vocabulary:
    return numbered(random.Random(seed).sample(words, len(words)))


def write_pair(
    tmp_path: Path,
    mine: Vocabulary | None,
    its: Vocabulary | None,
    rows: tuple[int, int],
    **about: Any,
) -> tuple[Path, Path]:
    vlm = write_model(
        tmp_path / "vlm", layout="qwen3_vl", tokenizer=mine, vocab=rows[0], seed=1, **about
    )
    return vlm, write_model(tmp_path / "lm", tokenizer=its, vocab=rows[1], seed=2, **about)


def recipe(pair: tuple[Path, Path], method: str = "wise_ft", **settings: Any) -> dict[str, Any]:
    settings = settings or {"alpha": 0.25}
    return {"method": method, "vlm": pair[0], "reference": pair[1], "settings": settings}


def by_hand(
    mine: Vocabulary, its: Vocabulary, vlm: torch.Tensor, lm: torch.Tensor
) -> tuple[torch.Tensor, list[int]]:
    """wise_ft with alpha 0.25, token after token, in plain Python."""
    out, merged = vlm.clone(), []
    for token, row in mine.items():
        if token in its and row < len(vlm) and its[token] < len(lm):
            out[row] = 0.75 * lm[its[token]] + 0.25 * vlm[row]
            merged.append(row)
    return out, merged


CASES = {
    "one order": (numbered(WORDS), numbered(WORDS), (40, 40)),
    "padded": (numbered(WORDS), numbered(WORDS), (48, 48)),
    "image tokens behind": (numbered([*WORDS, "<image>", "<pad>"]), numbered(WORDS), (48, 40)),
    "image tokens on padded rows": (numbered([*WORDS, "<image>"]), numbered(WORDS), (44, 44)),
    "an image token in front": (numbered(["<image>", *WORDS]), numbered(WORDS), (41, 40)),
    "another order": (shuffled(WORDS), numbered(WORDS), (40, 40)),
    "another order, padded": (shuffled(WORDS, 1), shuffled([*WORDS, "<x>"], 2), (43, 50)),
    "fewer rows than tokens": (numbered(WORDS), shuffled(WORDS, 3), (30, 35)),
    "a hole": (numbered(WORDS), {w: i for w, i in numbered(WORDS).items() if i != 7}, (40, 40)),
}


@pytest.mark.parametrize("case", CASES)
def test_each_shared_token_is_merged_with_itself(tmp_path: Path, case: str) -> None:
    mine, its, rows = CASES[case]
    pair = write_pair(tmp_path, mine, its, rows)
    report = merge_checkpoints(recipe(pair), tmp_path / "out", threads=1)
    vlm, lm, out = state_of(pair[0]), state_of(pair[1]), state_of(tmp_path / "out")
    for name, other in ((EMBED, "model.embed_tokens.weight"), (HEAD, HEAD)):
        wanted, merged = by_hand(mine, its, vlm[name], lm[other])
        torch.testing.assert_close(out[name], wanted)
        kept = [row for row in range(rows[0]) if row not in merged]
        assert torch.equal(out[name][kept], vlm[name][kept])
    (told,) = report.vocabulary
    assert sorted(told.tables) == sorted((EMBED, HEAD))
    assert (told.merged, told.kept) == (len(merged), rows[0] - len(merged))
    assert told.padded == sum(row not in mine.values() for row in range(rows[0]))
    assert told.dropped == {"lm": rows[1] - len(merged)}


@pytest.mark.parametrize("method", ["ties", "slerp", "star", "dare_ties", "linear"])
@pytest.mark.parametrize("case", ["padded", "another order, padded", "an image token in front"])
def test_rows_without_a_pair_stay_whatever_the_method(
    tmp_path: Path, method: str, case: str
) -> None:
    mine, its, rows = CASES[case]
    pair = write_pair(tmp_path, mine, its, rows, dtype=torch.bfloat16)
    settings = {
        "ties": {"density": 0.5}, "slerp": {"t": 0.3}, "star": {"eta": 0.5},
        "dare_ties": {"density": 0.5}, "linear": {"weight": 0.5},
    }[method]  # fmt: skip
    merge_checkpoints(recipe(pair, method, **settings), tmp_path / "out")
    vlm, out = state_of(pair[0]), state_of(tmp_path / "out")
    merged = [row for token, row in mine.items() if token in its and row < rows[0]]
    kept = [row for row in range(rows[0]) if row not in merged]
    for name in (EMBED, HEAD):
        assert torch.equal(out[name][kept], vlm[name][kept])
        assert not torch.equal(out[name][merged], vlm[name][merged])


@pytest.mark.parametrize("method", ["ties", "slerp", "dare_ties", "sce"])
def test_the_order_of_tokens_changes_no_bit(tmp_path: Path, method: str) -> None:
    """A method that looks at a whole table sees the shared rows, in the VLM's order."""
    settings: dict[str, Any] = {"slerp": {"t": 0.3}, "sce": {}}.get(method, {"density": 0.5})
    mine = numbered(WORDS)
    plain = write_pair(tmp_path / "a", mine, mine, (40, 40))
    merge_checkpoints(recipe(plain, method, **settings or {"select_topk": 0.5}), tmp_path / "x")
    moved = shuffled(WORDS, 5)

    def reorder(state: dict[str, torch.Tensor]) -> None:
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            table = torch.empty_like(state[name])
            table[[moved[word] for word in WORDS]] = state[name]
            state[name] = table

    other = write_model(tmp_path / "b", tokenizer=moved, vocab=40, seed=2, change=reorder)
    merge_checkpoints(
        recipe((plain[0], other), method, **settings or {"select_topk": 0.5}), tmp_path / "y"
    )
    one, two = state_of(tmp_path / "x"), state_of(tmp_path / "y")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_reference_may_be_untied_or_tied(tmp_path: Path) -> None:
    mine, its, rows = CASES["another order, padded"]
    vlm = write_model(tmp_path / "vlm", layout="qwen3_vl", tokenizer=mine, vocab=rows[0], seed=1)
    lm = write_model(tmp_path / "lm", tokenizer=its, vocab=rows[1], seed=2, tied=True)
    merge_checkpoints(recipe((vlm, lm)), tmp_path / "out")
    table = state_of(lm)["model.embed_tokens.weight"]
    wanted, _ = by_hand(mine, its, state_of(vlm)[HEAD], table)
    torch.testing.assert_close(state_of(tmp_path / "out")[HEAD], wanted)


def test_without_tokenizers_equal_rows_are_assumed_and_said(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, None, None, (11, 11))
    report = merge_checkpoints(recipe(pair), tmp_path / "out")
    assert any("it is assumed that one row" in warning for warning in report.warnings)
    assert report.vocabulary[0].merged == 11


@pytest.mark.parametrize("which", [0, 1])
def test_without_a_tokenizer_other_numbers_of_rows_are_refused(tmp_path: Path, which: int) -> None:
    tokens = [numbered(WORDS), numbered(WORDS)]
    given: list[Vocabulary | None] = [*tokens]
    given[which] = None
    pair = write_pair(tmp_path, given[0], given[1], (44, 40))
    with pytest.raises(MixlabError) as caught:
        preview_merge(recipe(pair))
    told = str(caught.value)
    assert f"{EMBED}: 44 rows" in told
    assert "no tokenizer.json or vocab.json in" in told
    assert "copy the tokenizer.json" in told
    assert f"/{('vlm', 'lm')[which]}" in told
    assert "mixed" in preview_merge({**recipe(pair), "scope": "*layers*"})


def test_tokenizers_of_two_kinds_are_refused(tmp_path: Path) -> None:
    strange = numbered([*WORDS[:15], *(f"_{word}" for word in WORDS[15:])])
    pair = write_pair(tmp_path, numbered(WORDS), strange, (40, 40))
    with pytest.raises(MixlabError, match="share 15 of 40 and 40 tokens, too few"):
        preview_merge(recipe(pair))


def test_a_tokenizer_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, numbered(WORDS), numbered(WORDS), (40, 40))
    (pair[1] / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE"}}))
    with pytest.raises(MixlabError, match=r"lm/tokenizer.json: no tokenizer that can be read"):
        preview_merge(recipe(pair))


def test_a_row_of_two_tokens_that_part_in_the_reference_is_kept(tmp_path: Path) -> None:
    mine = {**numbered(WORDS), "twin": 3}
    its = {**numbered(WORDS), "twin": 40}
    pair = write_pair(tmp_path, mine, its, (40, 41))
    report = merge_checkpoints(recipe(pair), tmp_path / "out")
    assert (report.vocabulary[0].merged, report.vocabulary[0].lacking) == (39, 1)
    assert torch.equal(state_of(tmp_path / "out")[EMBED][3], state_of(pair[0])[EMBED][3])


def test_the_preview_and_the_card_tell_of_rows(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, *CASES["another order, padded"])
    assert "40 rows merged by token, 3 kept (0 whose token" in preview_merge(recipe(pair))
    merge_checkpoints(recipe(pair), tmp_path / "out")
    assert "40 rows merged by token" in (tmp_path / "out" / "README.md").read_text()
    told = json.loads((tmp_path / "out" / "mixlab_merge.json").read_text())["vocabulary"]
    assert told[0]["dropped"] == {"lm": 10}


def test_150_000_tokens_in_another_order_take_less_than_a_second(tmp_path: Path) -> None:
    words = [f"token-{i}" for i in range(150_000)]
    for name, vocabulary in (("a", numbered(words)), ("b", shuffled(words))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").write_text(
            json.dumps({"model": {"vocab": vocabulary}})
        )
    began = time.process_time()
    found = align(tmp_path / "a", tmp_path / "b")
    assert time.process_time() - began < 1
    its = shuffled(words)
    assert found.mine is not None
    assert found.its is not None
    assert np.array_equal(found.mine, np.arange(150_000))
    assert found.its.tolist() == [its[word] for word in words]
