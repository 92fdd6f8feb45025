"""Tiny Llama folders, mergekit's own run of a file, and ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from mixlab.checkpoint import read_state, torch_dtype
from mixlab.merge import Context, get_method
from mixlab.merge._plan import Input, MergePlan
from mixlab.merge.mergekit_yaml import run_mergekit
from tests.tiny_checkpoints import write_model

State = dict[str, torch.Tensor]
Run = Callable[[str], tuple[State, dict[str, Any]]]


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models a, b, c, d of 4 blocks, and a tied one of the same shape; never written to."""
    folder = tmp_path_factory.mktemp("zoo")
    for seed, name in enumerate(("a", "b", "c", "d")):
        write_model(folder / name, layers=4, width=16, seed=seed)
    write_model(folder / "tied", layers=4, width=16, tied=True, seed=9)
    return folder


@pytest.fixture
def in_zoo(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Names in files are relative to the working directory."""
    monkeypatch.chdir(zoo)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return zoo


@pytest.fixture
def theirs(in_zoo: Path, tmp_path: Path) -> Run:
    """Tensors and config that mergekit makes of a file's text."""

    def run(text: str) -> tuple[State, dict[str, Any]]:
        from mergekit.config import MergeConfiguration
        from mergekit.merge import run_merge
        from mergekit.options import MergeOptions

        out = tmp_path / "theirs"
        options = MergeOptions(
            copy_tokenizer=False, write_model_card=False, quiet=True, lora_merge_cache=str(tmp_path)
        )
        run_merge(MergeConfiguration.model_validate(yaml.safe_load(text)), str(out), options)
        return read_state(out), json.loads((out / "config.json").read_text())

    return run


@pytest.fixture
def ours(in_zoo: Path, tmp_path: Path) -> Run:
    """The same of ours, in memory."""

    def run(text: str) -> tuple[State, dict[str, Any]]:
        file = tmp_path / "merge.yaml"
        file.write_text(text)
        return run_mergekit(file, tmp_path / "ours", keep)

    def keep(plan: MergePlan, out: Path) -> tuple[State, dict[str, Any]]:
        out.mkdir(exist_ok=True)
        for name, path in plan.side_files.items():
            shutil.copy(path, out / name)
        return carry_out(plan), dict(plan.config)

    return run


def carry_out(plan: MergePlan) -> State:
    """A plan by its definition: whole tensors, no threads."""

    def read(one: Input) -> torch.Tensor:
        source = plan.sources[one.model]
        assert source.entries[one.entry.name] == one.entry
        return source.read(one.entry.name)

    state = {}
    for tensor in plan.written:
        dtype = torch_dtype(tensor.dtype)
        if tensor.action == "keep":
            assert tensor.target is not None
            state[tensor.name] = read(tensor.target).to(dtype)
        else:
            state[tensor.name] = get_method(tensor.method).apply(
                [read(one) for one in tensor.inputs],
                read(tensor.base) if tensor.base else None,
                tensor.settings,
                Context(name=tensor.name, layer=tensor.layer, layers=tensor.layers),
                dtype=dtype,
            )
        assert tuple(state[tensor.name].shape) == tensor.shape
    return state
