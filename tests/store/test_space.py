from pathlib import Path

import pytest

from mixlab import MixlabError
from mixlab.store import cache_dir, check_free_space


def test_asks_the_nearest_existing_parent(tmp_path: Path) -> None:
    check_free_space(tmp_path / "not" / "yet", 1)
    with pytest.raises(MixlabError, match=r"free, 1000000000\.0 GB needed.*--out"):
        check_free_space(tmp_path / "not" / "yet", 10**18)


def test_cache_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MIXLAB_HOME", raising=False)
    assert cache_dir() == tmp_path / "mixlab"
    monkeypatch.setenv("MIXLAB_HOME", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home"
