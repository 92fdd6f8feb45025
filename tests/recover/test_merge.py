"""The merge path as an operator: its ends, its cache, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from mixlab.models import LoadedModel
from mixlab.recover import MergeOperator, Operator, merge_operator
from mixlab.score import Scorer, Task, score_model
from mixlab.score import _answers as answers_module
from mixlab.spec import MixlabError

READ = ["task", "item", "condition", "protocol", "status", "score", "response"]


def _read(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[READ].sort_values(READ[:4]).reset_index(drop=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    original = answers_module.generate

    def generate(lm, requests, **kwargs):
        counts.append(len(requests))
        return original(lm, requests, **kwargs)

    monkeypatch.setattr(answers_module, "generate", generate)
    return counts


def test_ends_restoration_and_cache(
    vlm: LoadedModel,
    lm: LoadedModel,
    text_task: Task,
    vision_task: Task,
    tmp_path: Path,
    asked: list[int],
) -> None:
    tasks = [text_task, vision_task]
    state = {name: tensor.detach().clone() for name, tensor in vlm.model.state_dict().items()}
    reference = score_model(lm, [text_task], cache=tmp_path)
    scorer = Scorer(vlm, tasks, cache=tmp_path)
    plain = scorer.score()
    asked.clear()
    rows = merge_operator(vlm, lm.backbone_state(), [0, 0.5, 1], scorer)
    # 0.5 asks text and vision; 0 asks vision alone; 1 asks nothing.
    assert sorted(asked) == [12, 12, 40]
    assert set(rows.operator) == {"merge"}
    assert set(rows.alpha) == {0.0, 0.5, 1.0}
    pd.testing.assert_frame_equal(_read(rows[rows.alpha == 1]), _read(plain))
    text = rows[(rows.alpha == 0) & (rows.task == "text")]
    pd.testing.assert_frame_equal(_read(text), _read(reference))
    middle = rows[rows.alpha == 0.5]
    assert (_read(middle).response != _read(plain).response).any()
    assert rows.groupby("alpha").weights.nunique().eq(1).all()
    assert rows.weights.nunique() == 3
    for name, tensor in vlm.model.state_dict().items():
        assert tensor.equal(state[name]), name


def test_the_model_is_restored_after_an_error(vlm: LoadedModel, lm: LoadedModel) -> None:
    before = vlm.weights_digest()

    def fail(loaded: LoadedModel) -> pd.DataFrame:
        assert loaded.weights_digest() != before
        raise RuntimeError("scoring broke")

    with pytest.raises(RuntimeError, match="scoring broke"):
        merge_operator(vlm, lm.backbone_state(), [0.5], fail)
    assert vlm.weights_digest() == before


@pytest.mark.parametrize("alphas", [[], [1.5], [-0.1, 1], [0.5, 0.5]])
def test_bad_alphas(lm: LoadedModel, alphas: list[float]) -> None:
    with pytest.raises(MixlabError, match="from 0"):
        MergeOperator(lm.backbone_state(), alphas)


def test_declares_what_it_imports(lm: LoadedModel) -> None:
    operator: Operator = MergeOperator(lm.backbone_state(), [0, 1])
    assert operator.declared() == {
        "name": "merge",
        "kind": "repair",
        "imports": "the reference's weights",
        "alphas": [0.0, 1.0],
    }


def test_a_scorer_serves_only_its_own_model(
    vlm: LoadedModel, lm: LoadedModel, text_task: Task
) -> None:
    with pytest.raises(MixlabError, match="this scorer"):
        merge_operator(lm, lm.backbone_state(), [1], Scorer(vlm, [text_task]))
