from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_checkpoints import write_model

from mixlab.checkpoint import Checkpoint
from mixlab.merge._plan import MergePlan
from mixlab.merge.display._table import as_rows, merge_table
from mixlab.merge.planning._planning import plan_merge
from mixlab.merge.planning._recipe import load_recipe


def plan_of(**recipe: Any) -> MergePlan:
    plan = plan_merge(load_recipe(recipe))
    for source in plan.sources:
        assert isinstance(source, Checkpoint)
        source.close()
    return plan


@pytest.fixture
def plan(tmp_path: Path) -> MergePlan:
    vlm = write_model(
        tmp_path / "vlm", layout="qwen3_vl", layers=12, vocab=13, dtype=torch.bfloat16
    )
    reference = write_model(tmp_path / "lm", layers=12, tied=True)
    alpha = [{"module": "mlp", "value": [0.0, 1.0]}, {"layers": "0-5,8-", "value": 0.5}]
    settings = {"alpha": [*alpha, {"module": "embeddings", "value": 0.25}]}
    return plan_of(
        method="wise_ft", base=str(reference), models=[str(vlm)], settings=settings, seed=7
    )


def line_of(table: str, start: str) -> str:
    (found,) = [line for line in table.splitlines() if re.sub(r" +", " ", line).startswith(start)]
    return re.sub(r" +", " ", found)


def test_layers_collapse_with_their_settings(plan: MergePlan) -> None:
    table = merge_table(plan)
    body = "model.language_model.layers"
    assert line_of(table, f"mixed {body}.{{0-11}}.mlp.up_proj.weight").endswith(
        "× 12 BF16 [16, 8] 3.07 kB alpha 0 to 1"
    )
    assert "× 10 " in line_of(table, f"mixed {body}.{{0-5,8-11}}.self_attn.q_proj.weight")
    assert line_of(table, f"kept {body}.{{6-7}}.self_attn.q_proj.weight").endswith(
        "schedule does not name it"
    )
    assert "alpha 0.25" in line_of(table, "mixed model.language_model.embed_tokens.weight")
    assert "vocabulary rows 0 to 10" in line_of(
        table, "mixed model.language_model.embed_tokens.weight"
    )
    assert "× 2" in line_of(table, "kept model.visual.*")
    assert len(table.splitlines()) < 35


def test_every_tensor_is_counted_once(plan: MergePlan) -> None:
    table = merge_table(plan)
    rows = [line for line in table.splitlines() if re.match(r"(mixed|kept|dropped)  ", line)]
    rows = [line for line in rows if "parameters" not in line]
    counts = [int(found[1]) if (found := re.search(r"× (\d+)", line)) else 1 for line in rows]
    assert sum(counts) == len(plan.tensors)


def test_a_plan_that_mixes_nothing_has_neither_method_nor_seed(plan: MergePlan) -> None:
    kept = tuple(tensor for tensor in plan.tensors if tensor.action == "keep")
    first = merge_table(replace(plan, tensors=kept)).splitlines()[0]
    assert first == "nothing is mixed; what is kept is copied"


def test_totals_seed_warnings_and_models(plan: MergePlan) -> None:
    table = merge_table(plan)
    counts = plan.counts()
    total = sum(torch.Size(t.shape).numel() for t in plan.tensors if t.action == "mix")
    assert f"mixed   {counts['mix']} tensors, {total:,} parameters" in table
    assert "seed 7" in table.splitlines()[0]
    assert f"model-0: {plan.folders[0]}  (target)" in table
    assert all(f"warning: {warning}" in table for warning in plan.warnings)
    assert "with 3 threads" in merge_table(plan, threads=3)


def test_full_has_a_line_a_tensor(plan: MergePlan) -> None:
    table = merge_table(plan, full=True)
    for tensor in plan.tensors:
        assert any(tensor.name in line.split() for line in table.splitlines())


def test_rows_are_plain_data(plan: MergePlan) -> None:
    rows = as_rows(plan)
    assert json.loads(json.dumps(rows)) == rows
    assert [row["tensor"] for row in rows] == [tensor.name for tensor in plan.tensors]
    first = next(row for row in rows if row["module"] == "embeddings")
    assert (first["action"], first["rows"], first["bytes"]) == ("mixed", 11, 208)
    assert first["base"] == {"model": "base", "tensor": "model.embed_tokens.weight", "dtype": "F32"}


def test_settings_of_several_models_and_what_is_dropped(tmp_path: Path) -> None:
    a, b = write_model(tmp_path / "a"), write_model(tmp_path / "b", layout="llava")
    models = [{"model": str(a), "weight": [0.0, 1.0]}, {"model": str(b), "weight": 0.5}]
    rest = [{"layers": "0-", "value": [0.0, 1.0]}, {"value": 0.25}]
    models[0]["weight"] = rest
    table = merge_table(plan_of(method="linear", models=models, settings={"normalize": False}))
    assert table.splitlines()[0] == "method linear: normalize false; seed 0"
    assert line_of(table, "mixed model.layers.{0-1}.mlp.up_proj").endswith("weight 0 to 1, 0.5")
    assert line_of(table, "mixed model.norm.weight").endswith("weight 0.25, 0.5")
    assert line_of(table, "dropped vision_tower.*").endswith(
        "of model-1: not in the target (vision_tower)"
    )
