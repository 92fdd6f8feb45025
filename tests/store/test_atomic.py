import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mixlab import MixlabError
from mixlab.store import (
    atomic_folder,
    clean_temporaries,
    scratch_folder,
    write_bytes,
    write_json,
    write_text,
)
from mixlab.store.atomic import _host, atomic_file


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a" / "x.json", {"a": 1})

    def interrupted() -> None:
        with atomic_file(path) as aside:
            aside.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]


def test_nan_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_folder_whole_or_none(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with atomic_folder(target) as aside:
        (aside / "deep").mkdir()
        (aside / "deep" / "x").write_text("1")
        assert not target.exists()
    with pytest.raises(ZeroDivisionError), atomic_folder(target) as aside:
        (aside / "y").write_text(str(1 / 0))
    with atomic_folder(target) as aside:
        (aside / "z").write_text("3")
    assert [p.name for p in target.iterdir()] == ["z"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_full_disk_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as handle:
            handle.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(MixlabError, match=r"disk is full: could not write .*x\.bin.*Free some"):
        write_bytes(tmp_path / "x.bin", b"1234")
    assert list(tmp_path.iterdir()) == []


def test_really_full_disk(tmp_path: Path) -> None:
    """/dev/full answers every write with ENOSPC."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    def write() -> None:
        with atomic_file(tmp_path / "x") as aside:
            aside.symlink_to("/dev/full")
            aside.write_bytes(b"1")

    with pytest.raises(MixlabError, match="disk is full"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_only_dead_writers_leftovers_are_cleaned(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from mixlab.store.atomic import _aside\n"
        "from pathlib import Path\n"
        "a = _aside(Path(sys.argv[1]) / 'x'); a.write_text('half')\n"
        "b = _aside(Path(sys.argv[1]) / 'y'); b.mkdir(); (b / 'z').write_text('half')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    with atomic_file(tmp_path / "mine") as aside:
        aside.write_text("in progress")
        assert clean_temporaries(tmp_path) == 2
        assert aside.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_a_scratch_folder_is_gone_at_the_end_even_of_a_failure(tmp_path: Path) -> None:
    def fail() -> None:
        with scratch_folder(tmp_path / "out") as folder:
            assert folder.parent == tmp_path
            # A writer beside it, which cleans leftovers of dead ones, lets it be.
            with atomic_folder(tmp_path / "out") as aside:
                (aside / "x").write_text("x")
            assert folder.is_dir()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_was_filled_meanwhile_is_kept_where_none_is_to_be_replaced(
    tmp_path: Path,
) -> None:
    target = tmp_path / "out"
    target.mkdir()

    def write() -> None:
        with atomic_folder(target, replace=False) as aside:
            (aside / "mine").write_text("1")
            if fill:
                (target / "theirs").write_text("2")

    for fill in (True, False):
        if fill:
            with pytest.raises(MixlabError, match="not empty any more"):
                write()
            (target / "theirs").unlink()
        else:
            write()
    assert [p.name for p in target.iterdir()] == ["mine"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "real")
    with atomic_folder(tmp_path / "out") as aside:
        assert aside.parent == tmp_path / "disk"
        (aside / "x").write_text("1")
    assert (tmp_path / "out").is_symlink()
    assert [p.name for p in (tmp_path / "disk" / "real").iterdir()] == ["x"]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["disk", "out", "real", "x"]


def test_names_as_long_as_a_disk_takes_in_any_script(tmp_path: Path) -> None:
    for name in ("x" * 255, "模" * 85, "\N{PERSONAL COMPUTER}" * 63):
        with atomic_folder(tmp_path / name) as aside:
            (aside / "x").write_text("1")
        assert (tmp_path / name / "x").exists()


def test_names_that_only_look_like_leftovers_stay(tmp_path: Path) -> None:
    names = [".aside-notes", f".aside-{_host()}-pid-x-y-z", ".aside-1-2-3-4-5"]
    for name in names:
        (tmp_path / name).write_text("mine")
    assert clean_temporaries(tmp_path) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)


def test_names_in_no_encoding_are_written_and_read_back(tmp_path: Path) -> None:
    name = os.fsdecode(b"m\xff")
    assert json.loads(write_json(tmp_path / "x.json", {name: "ü"}).read_text()) == {name: "ü"}
    assert write_text(tmp_path / "x.md", name).read_text() == r"m\udcff"


def test_a_mistake_inside_names_the_folder_to_come(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic_folder(tmp_path / "out") as aside:
            write_text(aside / "x" / "y", "1")
            write_text(aside / "x" / "y" / "z", "2")

    with pytest.raises(MixlabError, match="a file stands where") as caught:
        fail()
    assert str(caught.value).startswith(f"{tmp_path}/out/x/y/z cannot be written")
    assert ".aside" not in str(caught.value)


def test_containers_of_one_name_leave_each_other_s_work_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / f".aside-{_host()}-{2**22 + 1}-1-00000000-out"
    monkeypatch.setattr(Path, "readlink", lambda _: Path("pid:[1]"))
    theirs = tmp_path / f".aside-{_host()}-{2**22 + 1}-1-00000000-out"
    assert mine != theirs
    monkeypatch.undo()
    for folder in (mine, theirs):
        folder.mkdir()
    assert clean_temporaries(tmp_path) == 1
    assert list(tmp_path.iterdir()) == [theirs]
