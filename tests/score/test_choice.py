"""Log-likelihood of choices against one plain forward pass per choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_tasks import vision_rows, write_task

from mixlab.models import LoadedModel
from mixlab.score import Task, load_task, score_model
from mixlab.score._choice import ChoiceRequest, log_likelihoods
from mixlab.score._prompts import Prompts
from mixlab.score._protocol import PROTOCOLS

ROWS = [
    {
        "id": str(number),
        "question": "he sits on " + "a very " * number + "tall chair. he",
        "answer": "falls",
        "choices": ["falls", "gets up and runs away", "sings", "x"][: 2 + number % 3],
    }
    for number in range(9)
]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(write_task(tmp_path, "choice", ROWS, metric="choice"))


def _request(loaded: LoadedModel, item, template: str) -> ChoiceRequest:
    prompts = Prompts(loaded.encoder)
    ids = prompts.ids(item.question, PROTOCOLS["strict"], template, None)
    wholes = tuple(
        prompts.with_choice(item.question, choice, ids, PROTOCOLS["strict"], template)
        for choice in item.choices
    )
    return ChoiceRequest(ids, wholes)


def _plain(model, whole: np.ndarray, start: int) -> float:
    with torch.inference_mode():
        logits = model(torch.tensor(whole[None].astype("int64"))).logits[0].double()
    logs = logits.log_softmax(-1)
    return float(sum(logs[at - 1, whole[at]] for at in range(start, len(whole))))


@pytest.mark.parametrize("template", ["plain", "chat"])
@pytest.mark.parametrize("rows", [1, 4, 32])
def test_equals_one_pass_per_choice(lm: LoadedModel, task: Task, template: str, rows: int) -> None:
    requests = [_request(lm, item, template) for item in task.items]
    found = log_likelihoods(lm.model, requests, pad_id=0, most_rows=rows)
    for request, answer in zip(requests, found, strict=True):
        expected = [_plain(lm.model, whole, len(request.context)) for whole in request.wholes]
        assert answer.values == pytest.approx(expected, abs=1e-4)


def test_a_token_over_the_border_belongs_to_the_choice(lm: LoadedModel) -> None:
    context = np.array([1, 7, 8, 9], np.int32)
    wholes = (np.array([1, 7, 8, 10, 11], np.int32), np.array([1, 7, 8, 9, 12], np.int32))
    request = ChoiceRequest(context, wholes)
    assert request.shared == 3
    [answer] = log_likelihoods(lm.model, [request], pad_id=0)
    expected = [_plain(lm.model, whole, 4) for whole in wholes]
    assert answer.values == pytest.approx(expected, abs=1e-4)


def test_raw_and_per_character_stand_beside_each_other(lm: LoadedModel, task: Task) -> None:
    frame = score_model(lm, [task], ["strict", "semantic"])
    raw = frame[frame.protocol == "strict"].response
    per_character = frame[frame.protocol == "semantic"].response
    # Summed log-likelihood favours the shortest choice; a random model shows it plainly.
    assert raw.str.len().mean() < per_character.str.len().mean()
    assert set(frame.status) == {"ok"}


def test_choices_under_an_image(vlm: LoadedModel, tmp_path: Path) -> None:
    rows = [{**row, "choices": [row["answer"], "zzz"]} for row in vision_rows(tmp_path, 6)]
    path = write_task(tmp_path, "v", rows, metric="choice", construct="vision")
    frame = score_model(vlm, [load_task(path)], ["strict"], conditions=("image", "none"))
    assert len(frame) == 12
    assert frame.score.isin([0.0, 1.0]).all()
