"""Whole files or none: write aside in the same folder, flush to disk, rename.

A rename within one file system is atomic, and flushing the folder afterwards makes the new name
itself survive a power cut. Temporary names carry host, process id and process start time, so that a
later start knows which ones nobody is writing any more.
"""

import errno
import json
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from mixlab import MixlabError
from mixlab.store.space import disk_errors

_PREFIX = ".aside-"
_NAME = re.compile(re.escape(_PREFIX) + r"([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]{8}-")
_FOREIGN_HOST_SECONDS = 24 * 3600.0
# What renaming onto a folder that holds something is answered with.
_HOLDS = {errno.ENOTEMPTY, errno.EEXIST}


def _start_ticks(pid: int) -> str:
    """Start time of a process in clock ticks since boot, "0" where /proc does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "0"
    return stat.rpartition(")")[2].split()[19]


def _host() -> str:
    """Of the machine and its table of processes; containers of one name have their own tables."""
    try:
        table = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        table = ""
    return sha256(f"{socket.gethostname()} {table}".encode()).hexdigest()[:8]


def _aside(path: Path) -> Path:
    pid = os.getpid()
    return path.parent / (
        f"{_PREFIX}{_host()}-{pid}-{_start_ticks(pid)}-{secrets.token_hex(4)}-{_short(path.name)}"
    )


def _short(name: str) -> str:
    """The end of a name: a file system counts its bytes, at most 255 with what stands before."""
    return os.fsencode(name)[-60:].decode(errors="ignore")


def _alive(name: str, path: Path) -> bool:
    """Whether the process that made this temporary name still runs."""
    made = _NAME.match(name)
    if made is None:
        return True  # not one of ours
    host, pid, ticks = made.groups()
    if host != _host():
        try:
            return time.time() - path.lstat().st_mtime < _FOREIGN_HOST_SECONDS
        except FileNotFoundError:  # another writer was faster
            return True
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return ticks == _start_ticks(int(pid))


def clean_temporaries(folder: str | os.PathLike[str]) -> int:
    """Remove what dead writers left in `folder` (not below it); the number removed."""
    removed = 0
    root = Path(folder)
    if not root.is_dir():
        return 0
    for path in root.iterdir():
        if not path.name.startswith(_PREFIX) or _alive(path.name, path):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        removed += 1
    return removed


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems cannot flush a folder; the rename still holds
        pass
    finally:
        os.close(handle)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write aside; when the block ends well it becomes `path`, else it is removed.

    Raises:
        MixlabError: the disk is full or the folder refuses writing.
    """
    target = Path(path)
    aside = _aside(target)
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield aside
            with aside.open("rb+") as handle:
                os.fsync(handle.fileno())
            aside.replace(target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path` whole or not at all; returns the path."""
    with atomic_file(path) as aside:
        aside.write_bytes(data)
    return Path(path)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    r"""Write `text` as UTF-8 to `path` whole or not at all; returns the path.

    What UTF-8 has no bytes for (half of a surrogate pair, such as Python makes of a folder's name
    in another encoding) is written as `\udcff`, which JSON reads as the same.
    """
    return write_bytes(path, text.encode(errors="backslashreplace"))


def write_json(path: str | os.PathLike[str], value: Any) -> Path:
    """Write `value` as indented JSON, whole or not at all. NaN is refused (it is not JSON)."""
    return write_text(
        path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    )


@contextmanager
def scratch_folder(near: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty folder beside `near`, removed when the block ends.

    One that a killed process left is removed by the next writer there, as other leftovers are.

    Raises:
        MixlabError: the disk is full or the parent refuses writing.
    """
    target = Path(os.path.realpath(near))
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        clean_temporaries(target.parent)
        folder = _aside(target)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str], *, replace: bool = True) -> Iterator[Path]:
    """Yield an empty folder aside; when the block ends well it is renamed to `path`.

    Where `path` is a link, the folder that it leads to is written. Leftovers of killed writers
    beside it are cleaned first.

    Args:
        replace: a folder that holds something is moved aside, then removed once the new one is in
            place. Otherwise only an empty one is replaced.

    Raises:
        MixlabError: the disk is full or the parent refuses writing; or, without `replace`, somebody
            filled the folder meanwhile.
    """
    target = Path(os.path.realpath(path))
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        clean_temporaries(target.parent)
        aside = _aside(target)
        aside.mkdir()
        try:
            yield aside
            for root, _, files in os.walk(aside):
                for name in files:
                    # Opened for reading: a hard link may lead to a file that is not ours to write.
                    with (Path(root) / name).open("rb") as handle:
                        os.fsync(handle.fileno())
                sync_folder(Path(root))
            _put(aside, target, replace)
        except BaseException as error:
            shutil.rmtree(aside, ignore_errors=True)
            if type(error) is MixlabError and str(aside) in str(error):
                # Whoever reads it knows the folder by its name to come.
                raise MixlabError(str(error).replace(str(aside), str(target))) from error
            raise
        sync_folder(target.parent)


def _put(aside: Path, target: Path, replace: bool) -> None:
    try:
        aside.rename(target)  # an empty folder gives way in the same instant
    except OSError as error:
        if error.errno not in _HOLDS:
            raise
        if not replace:
            raise MixlabError(
                f"{target}: is not empty any more, another program wrote to it meanwhile; nothing "
                "of it was changed. Choose another output folder"
            ) from None
        old = _aside(target)
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
