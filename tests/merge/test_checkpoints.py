from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny_checkpoints import write_model

from mixlab.merge import MergeDisplay, Progress, list_merges, merge_checkpoints, preview_merge
from mixlab.merge.display._progress import describe
from mixlab.merge.display._sizes import parse_size
from mixlab.merge.running._execute import execute
from mixlab.merge.running._report import MergeReport
from mixlab.spec import MixlabError
from tests.merge.merging import state_of

UP = "model.layers.1.mlp.up_proj.weight"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return write_model(tmp_path / "a", seed=1), write_model(tmp_path / "b", seed=2, shards=2)


def test_a_mergekit_file_and_a_recipe_of_ours_give_the_same_weights(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    weights = (0.25, 0.75)
    theirs = tmp_path / "theirs.yml"
    theirs.write_text(
        yaml.safe_dump(
            {
                "merge_method": "linear",
                "models": [
                    {"model": str(folder), "parameters": {"weight": weight}}
                    for folder, weight in zip(pair, weights, strict=True)
                ],
            }
        )
    )
    ours = {
        "method": "linear",
        "models": [
            {"model": folder, "weight": weight}
            for folder, weight in zip(pair, weights, strict=True)
        ],
    }
    one = merge_checkpoints(theirs, tmp_path / "one", check="all")
    two = merge_checkpoints(ours, tmp_path / "two", check="all")
    assert one.output.digest == two.output.digest
    a, b, out = state_of(pair[0]), state_of(pair[1]), state_of(tmp_path / "one")
    assert torch.allclose(out[UP], 0.25 * a[UP] + 0.75 * b[UP], atol=1e-6)


def test_earlier_documents_of_a_mergekit_file_leave_nothing_behind(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    first = {"name": "half", "merge_method": "linear", "models": [{"model": str(m)} for m in pair]}
    last = {
        "merge_method": "task_arithmetic",
        "base_model": str(pair[0]),
        "models": [{"model": "half", "parameters": {"weight": 2.0}}],
    }
    for document in (first, last):
        for model in document["models"]:
            model.setdefault("parameters", {"weight": 1.0})
    file = tmp_path / "two.yml"
    file.write_text(yaml.safe_dump_all([first, last]))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MixlabError, match="inside the input"):
        merge_checkpoints(file, pair[1] / "out")
    assert sorted(tmp_path.rglob("*")) == before
    merge_checkpoints(file, tmp_path / "out", check="all")
    assert torch.allclose(state_of(tmp_path / "out")[UP], state_of(pair[1])[UP], atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "out", "two.yml"]


@pytest.fixture
def two_documents(pair: tuple[Path, Path], tmp_path: Path) -> Path:
    first = {"name": "half", "merge_method": "linear"}
    first["models"] = [{"model": str(m), "parameters": {"weight": 1.0}} for m in pair]  # type: ignore
    last = {"merge_method": "slerp", "base_model": str(pair[0]), "parameters": {"t": 0.5}}
    last["models"] = [{"model": "half"}]
    file = tmp_path / "two.yml"
    file.write_text(yaml.safe_dump_all([first, last]))
    return file


def test_the_disk_has_room_for_all_documents_or_the_first_is_not_begun(
    two_documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(t.nbytes for t in state_of(tmp_path / "a").values())
    begun = []

    def counted(*given: Any, **named: Any) -> MergeReport:
        begun.append(given)
        return execute(*given, **named)

    monkeypatch.setattr("mixlab.merge._checkpoints.execute", counted)

    def merge(free: int) -> None:
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr("mixlab.store.space.shutil.disk_usage", lambda _: usage)
        merge_checkpoints(two_documents, tmp_path / "out")

    spare = 16 << 20
    with pytest.raises(MixlabError, match=rf"not enough room for {tmp_path}/out:"):
        merge(spare + 2 * size - 1)
    assert not begun
    merge(spare + 2 * size)
    assert len(begun) == 2


def test_an_earlier_document_that_fails_is_told_by_its_name(
    two_documents: Path, pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("mixlab.checkpoint._writing.write_all", refuse)
    with pytest.raises(MixlabError, match="the disk is full") as caught:
        merge_checkpoints(two_documents, tmp_path / "out")
    assert f"could not write {tmp_path}/out: document half/model.safetensors" in str(caught.value)
    assert ".aside" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "two.yml"]


def test_a_packaged_recipe_takes_its_models_by_name(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    models = {"vlm": pair[0], "reference": pair[1]}
    merge_checkpoints("audit-95-5", tmp_path / "out", models=models)
    a, b, out = state_of(pair[0]), state_of(pair[1]), state_of(tmp_path / "out")
    assert torch.allclose(out[UP], 0.95 * a[UP] + 0.05 * b[UP], atol=1e-6)


def test_models_for_a_mergekit_file_are_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    recipe = {"merge_method": "linear", "models": [{"model": str(m)} for m in pair]}
    with pytest.raises(MixlabError, match="no placeholders"):
        merge_checkpoints(recipe, tmp_path / "out", models={"vlm": pair[0]})


def test_preview_writes_nothing_and_refuses_what_the_merge_would(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    recipe = {"method": "linear", "models": list(pair)}
    told = preview_merge(recipe, tmp_path / "out", full=True)
    assert UP in told
    with pytest.raises(MixlabError, match="is an input"):
        preview_merge(recipe, pair[0])
    assert sorted(tmp_path.rglob("*")) == before


def test_shards_by_size(pair: tuple[Path, Path], tmp_path: Path) -> None:
    recipe = {"method": "linear", "models": list(pair)}
    merge_checkpoints(recipe, tmp_path / "out", max_shard_size="2kB")
    sizes = [sum(t.numel() * 4 for t in state.values()) for state in _shards(tmp_path / "out")]
    assert len(sizes) > 2
    assert max(sizes) <= 2000


def _shards(folder: Path) -> list[dict[str, torch.Tensor]]:
    from safetensors.torch import load_file

    return [load_file(file) for file in folder.glob("*.safetensors")]


@pytest.mark.parametrize(
    ("given", "size"),
    [("5GB", 5 * 10**9), ("1.5 MiB", 1572864), ("500kb", 500000), (7, 7), ("7", 7)],
)
def test_sizes(given: str | int, size: int) -> None:
    assert parse_size(given) == size


@pytest.mark.parametrize("given", ["", "0", "5 apples", "-1GB", "0.1"])
def test_no_sizes(given: str) -> None:
    with pytest.raises(MixlabError, match="is no size"):
        parse_size(given)


def test_progress_in_words() -> None:
    progress = Progress(done=2_000_000_000, total=6_000_000_000, seconds=1.0, tensor="x")
    assert describe(progress) == "33%, 2.00 of 6.00 GB, 2.0 GB/s, 2 s left: x"
    assert describe(Progress(0, 10, 0.0, "")) == "0%, 0.00 of 0.00 GB, 0.0 GB/s: "


def test_display_off_a_terminal_is_a_line_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("mixlab.merge.display._progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with MergeDisplay(stream) as display:
        for tenth in range(120):
            now[0] = tenth / 10
            display(Progress(tenth, 120, now[0], "x"))
    assert len(stream.getvalue().splitlines()) == 2


def test_display_without_a_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with MergeDisplay() as display:
        display(Progress(1, 2, 1.0, UP))


def test_display_on_a_terminal_is_a_bar_that_goes_away() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with MergeDisplay(stream) as display:
        display(Progress(done=1, total=2, seconds=1.0, tensor="model.[red]x"))
        display(Progress(done=2, total=2, seconds=2.0, tensor="model.[red]x"))
    assert "100%" in stream.getvalue()
    assert "model.[red]x" in stream.getvalue()


def test_list_names_recipes_with_placeholders_and_methods_with_settings() -> None:
    told = list_merges()
    assert "audit-ties-0.2" in told
    assert "of vlm, reference" in told
    assert "density=1.0" in told
