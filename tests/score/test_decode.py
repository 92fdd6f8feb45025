"""The greedy loop against transformers' own generate, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mixlab.models import LoadedModel, extract_backbone
from mixlab.score._decode import Request, generate
from mixlab.score._engines import Engine, PaddedLeft, engine_for
from mixlab.score._llama import PaddedRight

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


ENGINES = [PaddedLeft, PaddedRight]


@pytest.mark.parametrize("engine", ENGINES)
def test_equals_generate(lm: LoadedModel, engine: type) -> None:
    stops = _stops(lm)
    requests = _requests(lm)
    found = generate(lm.model, requests, stop_ids=stops, pad_id=0, engine=engine)
    expected = [_by_generate(lm.model, request.ids, 12, stops) for request in requests]
    assert [list(answer.ids) for answer in found] == expected
    assert [answer.ended for answer in found] == [len(ids) < 12 for ids in expected]
    assert any(answer.ended for answer in found)


@pytest.mark.parametrize("engine", ENGINES)
def test_logits_are_the_models_own(lm: LoadedModel, engine: type) -> None:
    rows = [request.ids for request in _requests(lm)]
    chosen = torch.tensor([5, 1, 3])
    follow = torch.tensor([7, 8, 9])
    with torch.inference_mode():
        running: Engine = engine(lm.model, 0)
        first = running.start(rows, [None] * len(rows), None)
        running.keep(chosen)
        second = running.step(follow)
        third = running.step(follow + 1)
        for number, row in enumerate(rows):
            ids = torch.tensor(row[None].astype("int64"))
            torch.testing.assert_close(
                first[number], lm.model(ids).logits[0, -1], atol=1e-5, rtol=1e-4
            )
        for number, row in enumerate(chosen.tolist()):
            new = [int(follow[number]), int(follow[number]) + 1]
            ids = torch.tensor([[*rows[row].tolist(), *new]])
            logits = lm.model(ids).logits[0]
            torch.testing.assert_close(second[number], logits[-2], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(third[number], logits[-1], atol=1e-5, rtol=1e-4)


def test_an_engine_is_chosen_by_class(lm: LoadedModel, vlm: LoadedModel) -> None:
    assert isinstance(engine_for(lm.model, 0), PaddedRight)
    assert isinstance(engine_for(extract_backbone(vlm.model), 0), PaddedRight)

    class Other(type(lm.model)):  # type: ignore[misc]
        pass

    other = Other(lm.model.config)
    assert isinstance(engine_for(other, 0), PaddedLeft)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_batch_size_and_order_do_not_matter(lm: LoadedModel, rows: int, engine: type) -> None:
    stops = _stops(lm)
    requests = _requests(lm)
    expected = generate(lm.model, requests, stop_ids=stops, pad_id=0)
    order = np.random.default_rng(rows).permutation(len(requests))
    shuffled = [requests[index] for index in order]
    found = generate(lm.model, shuffled, stop_ids=stops, pad_id=0, most_rows=rows, engine=engine)
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
