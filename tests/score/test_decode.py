"""The greedy loop against transformers' own generate, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mixlab.models import LoadedModel, extract_backbone
from mixlab.score._decode import Request, generate

PROMPTS = ["a", "what is it", "one two three four", "b", "abcdefgh" * 4, "hm", "which one is"]


def _requests(loaded: LoadedModel, limit: int = 12) -> list[Request]:
    return [Request(loaded.encoder.encode_prompt(text).input_ids, limit) for text in PROMPTS]


def _by_generate(model: object, ids: np.ndarray, limit: int, stops: list[int]) -> list[int]:
    tensor = torch.tensor(ids[None].astype(np.int64))
    out = model.generate(  # type: ignore[attr-defined]
        tensor,
        attention_mask=torch.ones_like(tensor),
        max_new_tokens=limit,
        do_sample=False,
        eos_token_id=stops,
        pad_token_id=0,
    )
    new = out[0, len(ids) :].tolist()
    return new[: next((i for i, token in enumerate(new) if token in stops), len(new))]


# Bytes that the random models emit early stand in for stop tokens, so that rows end apart.
def _stops(loaded: LoadedModel) -> list[int]:
    answers = generate(loaded.model, _requests(loaded), stop_ids=[], pad_id=0)
    return sorted({answers[1].ids[3], answers[2].ids[7]})


def test_equals_generate(lm: LoadedModel) -> None:
    stops = _stops(lm)
    requests = _requests(lm)
    found = generate(lm.model, requests, stop_ids=stops, pad_id=0)
    expected = [_by_generate(lm.model, request.ids, 12, stops) for request in requests]
    assert [list(answer.ids) for answer in found] == expected
    assert [answer.ended for answer in found] == [len(ids) < 12 for ids in expected]
    assert any(answer.ended for answer in found)


@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_batch_size_and_order_do_not_matter(lm: LoadedModel, rows: int) -> None:
    stops = _stops(lm)
    requests = _requests(lm)
    expected = generate(lm.model, requests, stop_ids=stops, pad_id=0)
    order = np.random.default_rng(rows).permutation(len(requests))
    shuffled = [requests[index] for index in order]
    found = generate(lm.model, shuffled, stop_ids=stops, pad_id=0, most_rows=rows)
    assert [found[list(order).index(i)] for i in range(len(requests))] == expected


def test_each_row_has_its_own_limit(lm: LoadedModel) -> None:
    ids = lm.encoder.encode_prompt("one two").input_ids
    found = generate(lm.model, [Request(ids, n) for n in (1, 5, 3)], stop_ids=[], pad_id=0)
    assert [len(answer.ids) for answer in found] == [1, 5, 3]
    assert found[1].ids[:3] == found[2].ids
    assert not any(answer.ended for answer in found)


def test_text_through_a_vlm_equals_its_backbone(vlm: LoadedModel) -> None:
    backbone = extract_backbone(vlm.model)
    requests = _requests(vlm, 8)
    found = generate(backbone, requests, stop_ids=[2], pad_id=0)
    expected = [_by_generate(vlm.model, request.ids, 8, [2]) for request in requests]
    assert [list(answer.ids) for answer in found] == expected
