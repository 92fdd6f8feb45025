from pathlib import Path

import pytest

from mixlab import MixlabError
from mixlab.store import RunFolder


def test_done_only_after_finish(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, "abc")
    (run.open() / "weights").write_text("x")
    assert not run.done
    with pytest.raises(MixlabError, match="not finished"):
        run.info()
    run.finish({"loss": 0.5})
    assert RunFolder(tmp_path, "abc").done
    assert run.info() == {"loss": 0.5}


@pytest.mark.parametrize("content", ["", "[]", '{"loss": 0.'])
def test_a_damaged_marker_is_told_with_the_mend(tmp_path: Path, content: str) -> None:
    run = RunFolder(tmp_path, "abc")
    run.open()
    run.finish({})
    (run.path / "done.json").write_text(content)
    with pytest.raises(MixlabError, match=r"done\.json is damaged.*delete this file"):
        run.info()
