"""The response cache: right for the weights at hand, safe under writers."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest
import torch
from tiny_pair import write_pair

from mixlab.models import LoadedModel, load_model
from mixlab.score import Answer, Protocol, ResponseCache, Scorer, Task, score_model
from mixlab.score import _answers as answers_module


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    asked: list[int] = []
    for name in ("generate", "log_likelihoods"):
        original = getattr(answers_module, name)

        def wrapper(lm, requests, *, _original=original, **kwargs):
            asked.append(len(requests))
            return _original(lm, requests, **kwargs)

        monkeypatch.setattr(answers_module, name, wrapper)
    return asked


def test_two_checkpoints_written_in_turn_to_one_path(tmp_path: Path, text_task: Task) -> None:
    folder, cache = tmp_path / "model", tmp_path / "cache"
    responses = []
    for seed in (0, 1, 0):
        source, _ = write_pair(tmp_path / f"seed{seed}-{len(responses)}", seed=seed)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        frame = score_model(load_model(folder, device="cpu"), [text_task], ["strict"], cache=cache)
        fresh = score_model(load_model(folder, device="cpu"), [text_task], ["strict"])
        assert frame.equals(fresh)
        responses.append(frame.response)
    assert (responses[0] != responses[1]).any()
    assert responses[0].equals(responses[2])
    assert len(list(cache.iterdir())) == 2


def test_a_second_scoring_asks_nothing(
    lm: LoadedModel, text_task: Task, tmp_path: Path, counted: list[int]
) -> None:
    first = score_model(lm, [text_task], cache=tmp_path)
    asked = sum(counted)
    assert asked == len({item.question for item in text_task.items}) == 40
    assert score_model(lm, [text_task], cache=tmp_path).equals(first)
    assert sum(counted) == asked


def test_extractors_share_one_generation_and_settings_do_not(
    lm: LoadedModel, text_task: Task, tmp_path: Path, counted: list[int]
) -> None:
    score_model(lm, [text_task], ["strict", "semantic"], cache=tmp_path)
    assert sum(counted) == 40
    for changed in (
        Protocol(name="longer", max_new_tokens=7),
        Protocol(name="plain", template="plain"),
        Protocol(name="worded", wording="now: {question}"),
    ):
        before = sum(counted)
        score_model(lm, [text_task], [changed], cache=tmp_path)
        assert sum(counted) == before + 40


def test_text_is_kept_by_backbone_and_vision_by_all_weights(
    vlm: LoadedModel, text_task: Task, vision_task: Task, tmp_path: Path, counted: list[int]
) -> None:
    cache = tmp_path / "cache"
    scorer = Scorer(vlm, [text_task, vision_task], ["strict"], cache=cache)
    scorer.score()
    assert {path.name for path in cache.iterdir()} == {
        vlm.backbone_digest(),
        vlm.weights_digest(),
    }
    first = sum(counted)
    weight = vlm.model.model.multi_modal_projector.linear_1.weight
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.mul_(2)
        scorer.score()
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert sum(counted) == first + len(vision_task.items)


def _write(folder: Path, start: int) -> None:
    cache = ResponseCache(folder)
    for number in range(start, start + 12):
        cache.add("w", {f"k{number}": Answer((number,))})


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(tmp_path, start)) for start in (0, 6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    known = ResponseCache(tmp_path).lookup("w")
    assert {key: answer.ids for key, answer in known.items()} == {
        f"k{number}": (number,) for number in range(18)
    }


def test_another_writers_answers_are_seen(tmp_path: Path) -> None:
    mine, other = ResponseCache(tmp_path), ResponseCache(tmp_path)
    assert not mine.lookup("w")
    other.add("w", {"k": Answer((1, 2), False, (0.25,))})
    assert mine.lookup("w")["k"] == Answer((1, 2), False, (0.25,))
    assert not mine.lookup("v")


def test_a_broken_file_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "x.parquet").write_bytes(b"PAR1 cut")
    assert not ResponseCache(tmp_path).lookup("w")
    assert "x.parquet" in caplog.text
