from pathlib import Path

import pytest

from mixlab import MixlabError
from mixlab.store import atomic_folder, cache_dir, check_free_space, lock_folder, write_text


def test_asks_the_nearest_existing_parent(tmp_path: Path) -> None:
    check_free_space(tmp_path / "not" / "yet", 1)
    with pytest.raises(MixlabError, match=r"free, 1000000000 GB needed.*--out"):
        check_free_space(tmp_path / "not" / "yet", 10**18)


def test_cache_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MIXLAB_HOME", raising=False)
    assert cache_dir() == tmp_path / "mixlab"
    monkeypatch.setenv("MIXLAB_HOME", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home"


def test_a_path_that_cannot_be_is_told_with_the_mend(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("kept")
    folder.mkdir()
    for taken in (file, file / "deeper"):
        with pytest.raises(MixlabError, match=r"a file stands.*--out"), lock_folder(taken):
            pass
        with pytest.raises(MixlabError, match="a file stands where a folder is needed"):
            write_text(taken / "page.html", "x")
    with pytest.raises(MixlabError, match="a file stands"), atomic_folder(file / "study"):
        pass
    with pytest.raises(MixlabError, match="a folder stands where a file is needed"):
        write_text(folder, "x")
    assert file.read_text() == "kept"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]
