"""Bytes from file to file within the kernel, and whole files shared where the disk can."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from mixlab.checkpoint._header import open_file
from mixlab.spec import MixlabError
from mixlab.store import disk_errors

_FICLONE = 0x40049409  # linux/fs.h: share all blocks of a file, copied on write
_CHUNK = 8 << 20
# What a kernel or file system answers that cannot copy by itself.
_CANNOT = {
    errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.EPERM,
    errno.EBADF, errno.ETXTBSY,
}  # fmt: skip


def copy_range(source: int, at: int, target: int, to: int, length: int) -> int:
    """Copy `length` bytes between open files; fewer only where the source ends early.

    Raises:
        OSError: reading or writing failed.
    """
    done = 0
    by_kernel = hasattr(os, "copy_file_range")
    while done < length:
        if by_kernel:
            try:
                got = os.copy_file_range(source, target, length - done, at + done, to + done)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                got = 0
            if not got:  # some file systems answer 0 where they cannot
                by_kernel = False
                continue
        else:
            part = os.pread(source, min(_CHUNK, length - done), at + done)
            got = len(part)
            write_all(target, memoryview(part), to + done)
        if not got:
            break
        done += got
    return done


def write_all(descriptor: int, data: memoryview, at: int) -> None:
    """Write every byte of `data` at offset `at`."""
    done = 0
    while done < data.nbytes:
        done += os.pwrite(descriptor, data[done:], at + done)


def link_or_copy_file(source: Path, target: Path, *, hard: bool = False) -> None:
    """Make `target` a file with the bytes of `source`, sharing its blocks where the disk can.

    Args:
        hard: a hard link where possible: no room and no time, but one file under two names, so
            that whoever writes into one changes the other.

    Raises:
        MixlabError: the source cannot be read or is cut short; the disk is full or refuses.
    """
    real = source.resolve()
    if hard:
        with contextlib.suppress(OSError):
            os.link(real, target)
            return
    descriptor = open_file(real)
    try:
        with disk_errors(target):
            out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                _fill(descriptor, out, source)
            finally:
                os.close(out)
    finally:
        os.close(descriptor)


def _fill(source: int, target: int, path: Path) -> None:
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    size = os.fstat(source).st_size
    if copy_range(source, 0, target, 0, size) < size:
        raise MixlabError(f"{path} was cut short while it was copied")
