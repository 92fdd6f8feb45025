from pathlib import Path

import optuna
import pytest

from mixlab import MixlabError
from mixlab.study.journal import open_study, repair


def grown(path: Path) -> bytes:
    study = open_study(path, "s", ["maximize"])
    for value in range(3):
        study.tell(study.ask(), value)
    return path.read_bytes()


def test_any_cut_of_the_journal_opens(tmp_path: Path) -> None:
    """A crash leaves a prefix of the file; every prefix must open, with whole trials only."""
    content = grown(tmp_path / "whole.log")
    path = tmp_path / "cut.log"
    counts = []
    for size in range(0, len(content) + 1, 7):
        path.write_bytes(content[:size])
        study = open_study(path, "s", ["maximize"])
        done = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
        assert [trial.value for trial in done] == list(range(len(done)))
        counts.append(len(done))
    assert counts == sorted(counts)
    assert max(counts) in (2, 3)


def test_a_last_line_of_noise_is_cut(tmp_path: Path) -> None:
    content = grown(tmp_path / "a.log")
    (tmp_path / "a.log").write_bytes(content + b"\0\0\0\n")
    assert repair(tmp_path / "a.log") == 4
    assert (tmp_path / "a.log").read_bytes() == content


def test_damage_in_the_middle_is_told(tmp_path: Path) -> None:
    content = grown(tmp_path / "a.log")
    (tmp_path / "a.log").write_bytes(content.replace(b"{", b"#", 1))
    with pytest.raises(MixlabError, match=r"a\.log:1: this line is damaged"):
        open_study(tmp_path / "a.log", "s", ["maximize"])


def test_other_goals_are_refused(tmp_path: Path) -> None:
    grown(tmp_path / "a.log")
    with pytest.raises(MixlabError, match=r"goals \['maximize'\].*asks for \['minimize'\]"):
        open_study(tmp_path / "a.log", "s", ["minimize"])
