import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_checkpoints import write_model
from typer.testing import CliRunner

from mixlab import MixlabError
from mixlab.cli import app, main


@pytest.mark.parametrize(
    "command",
    [
        ["sweep"],
        ["report"],
        ["merge"],
        ["verify"],
        ["testbed", "build"],
        ["testbed", "arm"],
        ["mix", "show"],
    ],
)
def test_help_has_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"Example: mixlab {' '.join(command)}" in result.output


def test_a_mistake_is_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yaml").write_text("name: x\npair: {vlm: a, reference: b}\narms: {}\n")
    monkeypatch.setattr(sys, "argv", ["mixlab", "sweep", str(tmp_path / "a.yaml")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert f"{tmp_path}/a.yaml:3: unknown key 'arms'; did you mean 'arm'?" in error
    assert "Traceback" not in error


def test_report_of_no_study(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(result.exception, MixlabError)
    assert "no study.json" in str(result.exception)


def test_help_imports_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; from mixlab.cli import app\n"
        "from typer.testing import CliRunner\n"
        "CliRunner().invoke(app, ['--help'])\n"
        "assert not {'torch', 'pandas', 'optuna'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_merge_imports_torch_and_little_else() -> None:
    code = (
        "import sys; import mixlab.cli\n"
        "from mixlab.merge import MergeDisplay, list_merges, merge_checkpoints, preview_merge\n"
        "heavy = {'pandas', 'transformers', 'optuna', 'mergekit', 'scipy', 'pyarrow', 'datasets'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def merge_recipe(tmp_path: Path) -> Path:
    a, b = (write_model(tmp_path / name, seed=seed) for seed, name in enumerate(("a", "b")))
    file = tmp_path / "recipe.yaml"
    file.write_text(f"method: linear\nmodels: [{{model: {a}, weight: 0.5}}, {b}]\n")
    return file


def test_merge_makes_a_folder_and_says_what_it_did(merge_recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(
        app,
        ["merge", str(merge_recipe), str(out), "--set", "models.0.weight=1", "--verify-all"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0
    assert f"{out}: 21 tensors mixed, 0 kept, 0 dropped" in result.output
    assert "21 of 21 mixed tensors computed again" in result.output
    marker = json.loads((out / "mixlab_merge.json").read_text())
    assert marker["recipe"]["models"][0]["weight"] == 1


def test_merge_dry_run_writes_nothing(merge_recipe: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = CliRunner().invoke(app, ["merge", str(merge_recipe), "--dry-run", "--full"])
    assert result.exit_code == 0
    assert "model.layers.1.mlp.up_proj.weight" in result.output
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["RECIPE"], "expected RECIPE and OUT"),
        (["RECIPE", "OUT", "--model", "vlm"], "expected NAME=DIR"),
        (["RECIPE", "OUT", "--model", "a=x", "--model", "a=y"], "a is x already; give it once"),
        (["audit-uniform", "OUT"], "--model vlm=DIR"),
        (["audit-unifrom", "OUT"], "did you mean 'audit-uniform'?"),
        (["RECIPE", "OUT", "--max-shard-size", "big"], "'big' is no size"),
        (["RECIPE", "OUT", "--threads", "0"], "threads is 0"),
    ],
)
def test_merge_mistakes(
    merge_recipe: Path, tmp_path: Path, arguments: list[str], told: str
) -> None:
    places = {"RECIPE": str(merge_recipe), "OUT": str(tmp_path / "out")}
    given = [places.get(one, one) for one in arguments]
    result = CliRunner().invoke(app, ["merge", *given])
    assert isinstance(result.exception, MixlabError)
    assert told in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_merge_list() -> None:
    result = CliRunner().invoke(app, ["merge", "--list"])
    assert "audit-ties-0.2" in result.output
    assert "slerp" in result.output


def test_ctrl_c_in_a_merge_is_one_sentence_and_leaves_nothing(
    merge_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixlab.merge.display._progress.MergeDisplay.__call__", stop)
    before = sorted(tmp_path.rglob("*"))
    result = CliRunner().invoke(app, ["merge", str(merge_recipe), str(tmp_path / "out")])
    assert result.exit_code == 130
    assert f"mixlab: stopped; nothing was written to {tmp_path}/out" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_ctrl_c_while_python_ends_is_no_traceback() -> None:
    code = (
        "import atexit, signal; atexit.register(signal.raise_signal, signal.SIGINT)\n"
        "from mixlab.cli import app; app(['merge', '--list'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "audit-ties-0.2" in done.stdout
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_sigterm_in_a_merge_is_one_sentence_and_leaves_nothing(
    merge_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("mixlab.merge.display._progress.MergeDisplay.__call__", stop)
    before = sorted(tmp_path.rglob("*"))
    result = CliRunner().invoke(app, ["merge", str(merge_recipe), str(tmp_path / "out")])
    assert result.exit_code == 128 + signal.SIGTERM
    assert "mixlab: stopped; nothing was written" in result.stderr
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError(5, "Input/output error"), "Input/output error"), (MemoryError(), "out of memory")],
)
def test_what_the_machine_refuses_is_one_message(
    merge_recipe: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    told: str,
) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr("mixlab.merge.display._progress.MergeDisplay.__call__", fail)
    monkeypatch.setattr(sys, "argv", ["mixlab", "merge", str(merge_recipe), str(tmp_path / "out")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert f"mixlab: {told}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_disk_error_that_no_room_foresaw_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study.json").mkdir()
    monkeypatch.setattr(sys, "argv", ["mixlab", "report", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "study.json" in error
    assert "Traceback" not in error
