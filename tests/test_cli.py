import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mixlab import MixlabError
from mixlab.cli import app, main


@pytest.mark.parametrize(
    "command",
    [["sweep"], ["report"], ["testbed", "build"], ["testbed", "arm"], ["mix", "show"]],
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
