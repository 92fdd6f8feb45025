from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_checkpoints import write_model

from mixlab.checkpoint import Checkpoint, ShardWriter, digest_source
from mixlab.merge import MergePlan, MergeReport, Progress, execute
from mixlab.merge.running import _execute
from mixlab.merge.running._crew import Crew, Stopped
from mixlab.merge.running._jobs import PIECE, Job, cut, make_task, spread
from mixlab.merge.running._memory import Memory
from mixlab.spec import MixlabError
from tests.merge.merging import expected, planned, recipe_of, same, state_of

UP = "model.layers.1.mlp.up_proj.weight"
# 4 parts of a vocabulary table at the smallest part size, and more than one digest segment none.
WIDE = {"vocab": 300, "width": 64}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    about: dict[str, Any] = {**WIDE, "dtype": torch.bfloat16}
    return (
        write_model(tmp_path / "a", seed=1, shards=3, **about),
        write_model(tmp_path / "b", seed=2, shards=2, **about),
    )


def run(recipe: dict[str, Any], out: Path, **how: Any) -> tuple[MergeReport, MergePlan]:
    with planned(recipe) as plan:
        return execute(plan, out, **how), plan


@pytest.mark.parametrize(
    ("method", "settings", "base"),
    [
        ("wise_ft", {"alpha": 0.3}, True),
        ("linear", {"weight": [0.3, 0.9]}, False),
        ("ties", {"density": 0.3}, True),
        ("dare_linear", {"density": 0.4}, True),
        ("della", {"density": 0.4, "epsilon": 0.1}, True),
        ("slerp", {"t": 0.4}, True),
        ("tsv", {}, True),
        ("random_direction", {"alpha": 0.5}, True),
    ],
)
def test_streamed_equals_the_method_on_whole_tensors_bit_for_bit(
    pair: tuple[Path, Path], tmp_path: Path, method: str, settings: dict[str, Any], base: bool
) -> None:
    more: dict[str, Any] = {"base": pair[1]} if base else {}
    models = [pair[0]] if base else list(pair)
    recipe = recipe_of(method, models, settings=settings, seed=5, **more)
    with planned(recipe) as plan:
        wanted = expected(plan)
        execute(plan, tmp_path / "one", threads=1, part_bytes=1)
        execute(plan, tmp_path / "two", threads=2)
    assert same(state_of(tmp_path / "one"), wanted)
    assert same(state_of(tmp_path / "two"), wanted)


def test_digest_depends_on_neither_threads_parts_nor_shards(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    about: dict[str, Any] = {**WIDE, "dtype": torch.bfloat16}
    other = write_model(tmp_path / "other", seed=1, shards=1, **about)
    settings = {"density": 0.5}
    ways: list[dict[str, Any]] = [
        {"threads": 1},
        {"threads": 2, "part_bytes": 1},
        {"threads": 3, "max_shard_size": 9000},
    ]
    reports = []
    for index, how in enumerate(ways):
        model = other if index == 1 else pair[0]
        recipe = recipe_of("dare_ties", [model], base=pair[1], settings=settings, seed=3)
        reports.append(run(recipe, tmp_path / f"out-{index}", **how)[0])
    assert len({report.output.digest for report in reports}) == 1
    assert reports[0].output.digest == digest_source(Checkpoint(tmp_path / "out-0"))
    assert reports[0].inputs[0].digest == digest_source(Checkpoint(pair[0]))
    assert len(list((tmp_path / "out-2").glob("*.safetensors"))) > 3
    another = run(
        recipe_of("dare_ties", [pair[0]], base=pair[1], settings=settings, seed=4), tmp_path / "s"
    )[0]
    assert another.output.digest != reports[0].output.digest


def test_long_tensors_are_cut_into_jobs_and_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[Path, Path]
) -> None:
    assert PIECE % 4096 == 0
    monkeypatch.setattr("mixlab.merge.running._jobs.PIECE", 4096)
    monkeypatch.setattr("mixlab.merge.running._marks.SegmentDigest", _Undigested)
    recipe = recipe_of("linear", list(pair))
    with planned(recipe) as plan:
        tasks = [make_task(plan, tensor) for tensor in plan.written]
        assert max(len(cut(task)) for task in tasks) == 5  # 300 * 64 / 4096
        wanted = expected(plan)
        execute(plan, tmp_path / "out", threads=2, part_bytes=1)
    assert same(state_of(tmp_path / "out"), wanted)


class _Undigested:
    """Segments are 8 MiB, and pieces as small as these would cut them."""

    def __init__(self, size: int) -> None: ...
    def update(self, start: int, buffer: memoryview) -> None: ...
    def finish(self) -> list[str]:
        return []


def test_out_of_scope_stays_bit_for_bit_and_changed_elements_are_counted(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    report, _ = run(recipe_of("linear", list(pair), scope=["model.layers.1.mlp.*"]), tmp_path / "o")
    before, after = load_all(pair[0]), state_of(tmp_path / "o")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"model.layers.1.mlp.{part}_proj.weight" for part in ("gate", "up", "down")}
    assert (report.mixed, report.kept) == (3, 18)
    assert report.compared == sum(before[name].numel() for name in changed)
    assert report.changed == sum(int((before[n] != after[n]).sum()) for n in changed)


def load_all(folder: Path) -> dict[str, torch.Tensor]:
    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


@pytest.mark.parametrize("link", [False, True])
def test_untouched_shards_are_taken_over_whole(
    pair: tuple[Path, Path], tmp_path: Path, link: bool
) -> None:
    recipe = recipe_of("linear", list(pair), scope=["model.layers.1.mlp.*"])
    report, _ = run(recipe, tmp_path / "out", link=link)
    assert report.linked
    for name in report.linked:
        one, other = tmp_path / "out" / name, pair[0] / name
        assert one.read_bytes() == other.read_bytes()
        assert (one.stat().st_ino == other.stat().st_ino) == link
    assert report.output.digest == digest_source(Checkpoint(tmp_path / "out"))
    Checkpoint(pair[0]).unchanged()


def test_inputs_keep_their_bytes_and_times(pair: tuple[Path, Path], tmp_path: Path) -> None:
    def seen() -> dict[Path, tuple[int, bytes]]:
        return {
            file: (file.stat().st_mtime_ns, file.read_bytes())
            for folder in pair
            for file in folder.iterdir()
        }

    for folder in pair:
        for file in folder.iterdir():
            file.chmod(0o444)
    before = seen()
    run(recipe_of("linear", list(pair), scope=["model.layers.1.*"]), tmp_path / "out", link=True)
    assert seen() == before


@pytest.mark.parametrize("where", ["same", "inside", "around", "full", "file", "link"])
def test_an_output_that_could_harm_is_refused(
    pair: tuple[Path, Path], tmp_path: Path, where: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "way").symlink_to(pair[1])
    out, words = {
        "same": (pair[0], "is an input"),
        "inside": (pair[0] / "merged", "inside the input"),
        "around": (tmp_path, "around the input"),
        "full": (tmp_path / "full", "is not empty"),
        "file": (tmp_path / "file", "is a file"),
        "link": (tmp_path / "way", "is an input"),
    }[where]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MixlabError, match=words):
        run(recipe_of("linear", list(pair)), out)
    assert sorted(tmp_path.rglob("*")) == before


def test_nan_in_an_input_is_named_counted_and_refused_unless_allowed(tmp_path: Path) -> None:
    def spoil(state: dict[str, torch.Tensor]) -> None:
        state[UP][3, 2:4] = float("nan")
        state[UP][0, 0] = float("-inf")

    good = write_model(tmp_path / "good")
    bad = write_model(tmp_path / "bad", seed=1, change=spoil)
    recipe = recipe_of("linear", [good, bad])
    with pytest.raises(MixlabError) as caught:
        run(recipe, tmp_path / "out")
    told = str(caught.value)
    assert f"{bad}/model.safetensors: tensor {UP} holds 2 NaN and 1 infinite values" in told
    assert not (tmp_path / "out").exists()
    report, _ = run(recipe, tmp_path / "out", allow_nonfinite=True)
    assert report.nonfinite[f"bad: {UP}"] == (2, 1)
    assert sum(report.nonfinite[UP]) == 3
    assert torch.isnan(state_of(tmp_path / "out")[UP][3, 2:4]).all()


def test_a_result_that_overflows_is_told_apart_from_a_bad_input(tmp_path: Path) -> None:
    def enlarge(state: dict[str, torch.Tensor]) -> None:
        state[UP][0, 0] = 60000.0

    models = [
        write_model(tmp_path / name, seed=i, dtype=torch.float16, change=enlarge)
        for i, name in enumerate(("a", "b"))
    ]
    recipe = recipe_of("linear", models, settings={"normalize": False})
    with pytest.raises(MixlabError, match=f"{UP}: merged by linear and rounded to F16, 0 values"):
        run(recipe, tmp_path / "out")


def test_out_dtype_rounds_once_also_what_is_kept(tmp_path: Path) -> None:
    models = [write_model(tmp_path / n, seed=i) for i, n in enumerate("ab")]
    recipe = recipe_of("linear", models, scope=["model.layers.*"], out_dtype="bfloat16")
    run(recipe, tmp_path / "out")
    a, b, out = load_all(models[0]), load_all(models[1]), state_of(tmp_path / "out")
    assert {tensor.dtype for tensor in out.values()} == {torch.bfloat16}
    assert torch.equal(out["lm_head.weight"], a["lm_head.weight"].bfloat16())
    assert torch.equal(out[UP], ((a[UP] + b[UP]) / 2).bfloat16())


def test_rows_beyond_the_references_are_the_targets(tmp_path: Path) -> None:
    """The target's vocabulary is longer, as a VLM's is."""
    a = write_model(tmp_path / "a", vocab=11)
    b = write_model(tmp_path / "b", vocab=8, seed=1)
    name = "model.embed_tokens.weight"
    for method, more in (("linear", {}), ("ties", {"base": b})):
        models = [a] if more else [a, b]
        out = tmp_path / method
        with planned(recipe_of(method, models, **more)) as plan:
            assert {t.rows for t in plan.tensors if t.name == name} == {8}
            execute(plan, out)
        mixed, one, two = state_of(out)[name], load_all(a)[name], load_all(b)[name]
        assert torch.equal(mixed[8:], one[8:])
        wanted = (one[:8] + two) / 2 if method == "linear" else one[:8]
        assert torch.allclose(mixed[:8], wanted, atol=1e-6)


def test_side_files_config_and_marker_stand_beside_the_weights(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    (pair[0] / "chat_template.jinja").write_text("{{ messages }}")
    (pair[0] / "pytorch_model.bin").write_bytes(b"pickle")
    run(recipe_of("linear", list(pair)), tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"chat_template.jinja", "config.json", "README.md", "mixlab_merge.json"} <= names
    assert "pytorch_model.bin" not in names
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".aside")]


def test_a_side_file_that_goes_away_is_named_and_not_the_output(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    template = pair[0] / "chat_template.jinja"
    template.write_text("{{ messages }}")
    with planned(recipe_of("linear", list(pair))) as plan:
        template.unlink()
        with pytest.raises(MixlabError, match=r"chat_template\.jinja cannot be read"):
            execute(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite"])
def test_a_full_disk_leaves_nothing(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    calls = iter(range(100))
    real = getattr(os, call)

    def full(*args: Any) -> Any:
        if next(calls) == (0 if call == "posix_fallocate" else 9):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    monkeypatch.setattr(os, call, full)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(MixlabError, match="the disk is full"):
        run(recipe_of("linear", list(pair)), tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before


def test_too_little_room_is_told_before_anything_is_written(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: os.terminal_size((0, 0)) and _Free())
    with pytest.raises(MixlabError, match="not enough room"):
        run(recipe_of("linear", list(pair)), tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


class _Free:
    free = 1000


def test_an_input_that_changes_meanwhile_is_told(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ShardWriter.finish

    def touched(writer: ShardWriter) -> None:
        real(writer)
        next(pair[1].glob("*.safetensors")).touch()

    monkeypatch.setattr(ShardWriter, "finish", touched)
    with pytest.raises(MixlabError, match="changed since it was opened"):
        run(recipe_of("linear", list(pair)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_progress_reaches_the_total_and_errors_in_it_stop_the_merge(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    seen: list[Progress] = []
    report, _ = run(recipe_of("linear", list(pair)), tmp_path / "out", progress=seen.append)
    assert seen[-1].done == seen[-1].total == report.read + report.written
    assert seen[-1].tensor in state_of(tmp_path / "out")

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run(recipe_of("linear", list(pair)), tmp_path / "two", progress=stop)
    assert not (tmp_path / "two").exists()
    assert threading.active_count() == before


def test_threads_of_torch_are_restored(pair: tuple[Path, Path], tmp_path: Path) -> None:
    before = torch.get_num_threads()
    run(recipe_of("linear", list(pair)), tmp_path / "out")
    assert torch.get_num_threads() == before


SLOW = """
import sys, time
from mixlab.merge import merge_checkpoints
from mixlab.checkpoint import ShardWriter
real = ShardWriter.write
def slow(self, *args):
    real(self, *args)
    sys.stdout.write("writing\\n"); sys.stdout.flush()
    time.sleep(0.2)
ShardWriter.write = slow
merge_checkpoints({"method": "linear", "models": sys.argv[1:3]}, sys.argv[3])
"""


def test_kill_leaves_no_output_and_the_next_start_cleans_up(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *map(str, pair), str(out)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"writing")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not out.exists()
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".aside-")]
    run(recipe_of("linear", list(pair)), out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "out"]


@pytest.mark.parametrize("late", [False, True])
def test_a_folder_cleaned_away_while_it_is_written_is_no_finished_merge(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    removed = []

    def clean(*_: object) -> None:
        for shard in tmp_path.glob(".aside-*/*.safetensors"):
            shard.unlink()  # the files are open: whoever writes to them notices nothing
            removed.append(shard)

    if late:
        card = _execute.write_card
        monkeypatch.setattr(_execute, "write_card", lambda *given: (card(*given), clean()))
    with pytest.raises(MixlabError, match=rf"{tmp_path}/out/model.*removed or replaced"):
        run(recipe_of("linear", list(pair)), tmp_path / "out", progress=None if late else clean)
    assert removed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_whole_tensors_wait_for_memory_and_run_one_after_another(
    pair: tuple[Path, Path],
) -> None:
    with planned(recipe_of("slerp", [pair[0]], base=pair[1], settings={"t": 0.5})) as plan:
        tasks = [make_task(plan, tensor) for tensor in plan.written]
    largest = max(task.memory for task in tasks)
    memory, inside, most = Memory(budget=largest), [0], [0]
    lock = threading.Lock()

    def work(job: Job) -> None:
        with lock:
            inside[0] += job.task.memory
            most[0] = max(most[0], inside[0])
        time.sleep(0.001)
        with lock:
            inside[0] -= job.task.memory

    Crew([job for task in tasks for job in cut(task)], memory).run(lambda: work, 3, lambda: None)
    assert 0 < most[0] <= largest


def test_a_second_ctrl_c_does_not_leave_threads_behind(pair: tuple[Path, Path]) -> None:
    with planned(recipe_of("linear", list(pair))) as plan:
        jobs = [job for tensor in plan.written for job in cut(make_task(plan, tensor))]
    ended = threading.Event()

    def work(job: Job) -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)  # meets the main thread while it waits for this one
        time.sleep(0.2)
        ended.set()

    def tick() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Crew(jobs[:1], Memory()).run(lambda: work, 1, tick)
    assert ended.is_set()


def test_the_first_error_stops_the_others(pair: tuple[Path, Path]) -> None:
    with planned(recipe_of("linear", list(pair))) as plan:
        tasks = [make_task(plan, tensor) for tensor in plan.written]
    jobs = [job for task in tasks for job in cut(task)]
    crew = Crew(jobs, Memory())
    stopped: list[bool] = []

    def work(job: Job) -> None:
        if job is jobs[0]:
            raise MixlabError("first")
        try:
            for _ in range(1000):
                crew.check()
                time.sleep(0.001)
        except Stopped:
            stopped.append(True)
            raise

    with pytest.raises(MixlabError, match="first"):
        crew.run(lambda: work, 2, lambda: None)
    assert len(stopped) <= 1


def test_without_digests_nothing_is_hashed_and_the_bits_are_the_same(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    recipe = recipe_of("linear", list(pair), scope=["model.layers.1.mlp.*"])
    report, _ = run(recipe, tmp_path / "one", digests=False)
    run(recipe, tmp_path / "two")
    assert report.output.digest == ""
    assert report.linked
    assert same(state_of(tmp_path / "one"), state_of(tmp_path / "two"))


def test_an_input_of_another_shape_is_named(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Even if a plan says so: the transpose has as many elements."""
    with planned(recipe_of("linear", list(pair))) as plan:
        tensors = [
            replace(tensor, shape=tensor.shape[::-1]) if tensor.name == UP else tensor
            for tensor in plan.tensors
        ]
        with pytest.raises(
            MixlabError, match=rf"{UP}.* has shape \[128, 64\]; expected \[64, 128\]"
        ):
            execute(replace(plan, tensors=tuple(tensors)), tmp_path / "out")


def test_jobs_of_several_files_take_turns(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixlab.merge.running._jobs.PIECE", 4096)
    with planned(recipe_of("linear", list(pair))) as plan, Checkpoint(pair[0]) as made:
        tasks = [make_task(plan, tensor) for tensor in plan.written]
        files = {tensor.name: made.file_of(tensor.name).name for tensor in plan.written}
    jobs = spread(tasks, files)
    assert sorted(map(id, (job.task for job in jobs))) == sorted(
        id(task) for task in tasks for _ in cut(task)
    )
    assert len({files[job.task.plan.name] for job in jobs[:3]}) == 3
    for file in set(files.values()):
        own = [(job.task.plan.name, job.start) for job in jobs if files[job.task.plan.name] == file]
        assert own == [
            (task.plan.name, job.start)
            for task in tasks
            if files[task.plan.name] == file
            for job in cut(task)
        ]
