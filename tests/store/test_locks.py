import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mixlab import MixlabError
from mixlab.store import lock_folder

HOLD = """
import sys, time
from mixlab.store import lock_folder
with lock_folder(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_second_holder_is_told_who_holds_and_kill_releases(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        second = lock_folder(tmp_path)
        with pytest.raises(MixlabError, match=f"in use by process {holder.pid} "):
            second.__enter__()
        os.kill(holder.pid, signal.SIGKILL)
        started = time.monotonic()
        with lock_folder(tmp_path, wait=5):
            assert time.monotonic() - started < 5
    finally:
        holder.kill()
        holder.wait()


def test_released_at_the_end(tmp_path: Path) -> None:
    for _ in range(2):
        with lock_folder(tmp_path / "new"):
            pass
