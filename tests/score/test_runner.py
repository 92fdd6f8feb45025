"""score_model: its columns, conditions, statuses, and what must not change a score."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from tiny_tasks import write_task

from mixlab.models import LoadedModel
from mixlab.score import COLUMNS, PROTOCOLS, Protocol, Scorer, Task, load_task, score_model
from mixlab.score import _answers as answers_module
from mixlab.score._cache import Answer
from mixlab.spec import MixlabError


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    keys = ["task", "item", "condition", "protocol"]
    return frame.sort_values(keys).reset_index(drop=True)


def test_one_row_per_item_condition_and_protocol(
    vlm: LoadedModel, text_task: Task, vision_task: Task
) -> None:
    frame = score_model(vlm, [text_task, vision_task], conditions=("image", "permuted", "none"))
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 2 * (40 + 3 * 12)
    assert set(frame[frame.task == "text"].condition) == {"none"}
    counts = frame[frame.task == "vision"].groupby(["condition", "protocol"]).size()
    assert (counts == 12).all()
    assert not frame.duplicated(["task", "item", "condition", "protocol"]).any()
    assert set(frame.weights) == {vlm.weights_digest()}


def test_splits(lm: LoadedModel, text_task: Task) -> None:
    frame = score_model(lm, [text_task], ["strict"], splits=["dev"])
    assert set(frame.split) == {"dev"}
    assert len(frame) == 14


def test_batch_size_and_task_order_do_not_matter(
    vlm: LoadedModel, text_task: Task, vision_task: Task
) -> None:
    expected = _sorted(score_model(vlm, [text_task, vision_task], conditions=["image"]))
    turned = replace(text_task, items=text_task.items[::-1])
    for rows in (1, 7):
        scorer = Scorer(vlm, [vision_task, turned], conditions=["image"], most_rows=rows)
        pd.testing.assert_frame_equal(_sorted(scorer.score()), expected)


def test_a_language_model_skips_what_it_cannot_see(lm: LoadedModel, vision_task: Task) -> None:
    frame = score_model(lm, [vision_task], ["strict"], conditions=("image", "permuted", "none"))
    assert set(frame.condition) == {"none"}


def test_text_scores_of_a_vlm_are_its_backbones(
    vlm: LoadedModel, lm: LoadedModel, text_task: Task
) -> None:
    from mixlab.models import extract_backbone

    alone = replace(lm, model=extract_backbone(vlm.model))
    left = score_model(vlm, [text_task]).drop(columns="weights")
    pd.testing.assert_frame_equal(left, score_model(alone, [text_task]).drop(columns="weights"))


def test_statuses(lm: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"id": name, "question": name, "answer": "blue", "split": "test"}
        for name in ("right", "empty", "cut")
    ]
    task = load_task(write_task(tmp_path, "t", rows))
    tokens = tuple(lm.encoder.tokenizer("blue", add_special_tokens=False)["input_ids"])
    given = [Answer(tokens), Answer(()), Answer(tokens, ended=False)]

    def generate(lm, requests, *, done, **kwargs):
        done([0, 1, 2], given)
        return given

    monkeypatch.setattr(answers_module, "generate", generate)
    frame = score_model(lm, [task], ["strict"]).set_index("item")
    assert list(frame.status) == ["ok", "empty", "out_of_tokens"]
    assert list(frame.score) == [1.0, 0.0, 1.0]


def test_equal_prompts_share_one_generation(
    lm: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = answers_module.generate

    def generate(lm, requests, **kwargs):
        asked.append(len(requests))
        return original(lm, requests, **kwargs)

    monkeypatch.setattr(answers_module, "generate", generate)
    rows = [{"id": str(n), "question": "the same", "answer": f"a{n}"} for n in range(5)]
    frame = score_model(lm, [load_task(write_task(tmp_path, "t", rows))])
    assert asked == [1]
    assert frame.response.nunique() == 1


def test_progress_ends_at_the_total(lm: LoadedModel, text_task: Task, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    score_model(lm, [text_task], cache=tmp_path, progress=lambda *call: calls.append(call))
    assert calls[-1] == (40, 40)
    assert calls == sorted(calls)


def test_generation_digest_leaves_out_what_only_reads() -> None:
    strict, semantic = PROTOCOLS["strict"], PROTOCOLS["semantic"]
    assert strict.generation_digest == semantic.generation_digest
    assert strict.digest != semantic.digest
    assert Protocol(name="x").digest == strict.digest
    assert Protocol(name="x", system="be brief").generation_digest != strict.generation_digest


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"splits": ["train"]}, "dev, test"),
        ({"conditions": ["blank"]}, "permuted"),
        ({"protocols": ["exact"]}, "strict, semantic"),
        ({"protocols": ["strict", "strict"]}, "twice"),
    ],
)
def test_bad_arguments(lm: LoadedModel, text_task: Task, arguments: dict, word: str) -> None:
    with pytest.raises(MixlabError, match=word):
        score_model(lm, [text_task], **arguments)


def test_a_copy_of_a_protocol_has_a_digest_of_its_own() -> None:
    strict = PROTOCOLS["strict"]
    assert strict.model_copy(update={"system": "x"}).generation_digest != strict.generation_digest


@pytest.mark.parametrize("template", ["chat", "plain"])
def test_bos_stands_once(lm: LoadedModel, template: str) -> None:
    from mixlab.score._prompts import Prompts

    bos = lm.encoder.tokenizer.bos_token_id
    ids = Prompts(lm.encoder).ids("what?", PROTOCOLS["strict"], template, None)
    adds = lm.encoder.tokenizer("a")["input_ids"][:1] == [bos]
    assert list(ids).count(bos) == (1 if template == "chat" or adds else 0)


def test_a_generation_stays_within_the_context(lm: LoadedModel, tmp_path: Path) -> None:
    rows = [{"id": "1", "question": "a" * 110, "answer": "blue"}]
    task = load_task(write_task(tmp_path, "t", rows, max_new_tokens=500))
    assert len(score_model(lm, [task], ["strict"])) == 1


def test_importing_the_room_imports_no_torch() -> None:
    code = "import sys, mixlab.score, mixlab.recover; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_prompt_that_fails_is_named(lm: LoadedModel, tmp_path: Path) -> None:
    rows = [{"id": "1", "question": "long " * 60, "answer": "blue"}]
    with pytest.raises(MixlabError, match=r"cannot ask 'long long"):
        score_model(lm, [load_task(write_task(tmp_path, "t", rows))])
