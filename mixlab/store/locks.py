"""One writer for a folder, by flock: the kernel lets go of it however its holder dies."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mixlab import MixlabError
from mixlab.store.space import disk_errors


@contextmanager
def lock_folder(
    path: str | os.PathLike[str], *, wait: float = 0.0, name: str = ".lock"
) -> Iterator[None]:
    """Hold `path`/`name` for this process while the block runs; the folder is made if need be.

    The lock file stays behind on purpose (removing it would let two holders lock two files of one
    name); it names the last holder and means nothing by itself.

    Args:
        wait: seconds to wait for another holder before giving up.

    Raises:
        MixlabError: another process holds the folder; the message names it.
    """
    folder = Path(path)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
                    raise MixlabError(
                        f"{folder} is in use by {holder or 'another process'}. Wait until it "
                        "ends, stop it, or choose another folder with --out."
                    ) from None
                time.sleep(0.05)
        with suppress(OSError):  # a full disk: the name of the holder is only for messages
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
