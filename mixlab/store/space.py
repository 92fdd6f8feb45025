"""Free space, and a disk or a path that refuses writing told in one sentence."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mixlab import MixlabError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_PLACE = {
    errno.EEXIST: "a file stands where a folder is needed",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EISDIR: "a folder stands where a file is needed",
    errno.ENAMETOOLONG: "the name is too long",
}


def readable(size: float) -> str:
    """Bytes as people read them: `640 bytes`, `2.05 kB`, `186 GB`; a kB is 1000 bytes."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.3g} {unit}"


def check_free_space(path: str | os.PathLike[str], needed: int) -> None:
    """Raise unless the file system of `path` has `needed` bytes free.

    `path` need not exist yet: the nearest existing parent is asked.

    Raises:
        MixlabError: naming the path, what is free, what is needed and how to mend it.
    """
    target = Path(path).absolute()
    existing = next(p for p in (target, *target.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise MixlabError(
            f"not enough room for {target}: {readable(free)} free, {readable(needed)} needed. "
            "Free some space, or choose another disk by OUT or --out (results) or "
            "MIXLAB_HOME (caches)."
        )


@contextmanager
def disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a disk refuses while `path` is written into a MixlabError with the mend.

    A full or read-only disk, and a path that cannot be: a file in the place of a folder, or a
    folder in the place of a file.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise MixlabError(
                f"the disk is full: could not write {path}. No half-written file was left. Free "
                "some space and start the same command again; a sweep's finished runs are kept."
            ) from error
        if error.errno in _REFUSED:
            raise MixlabError(
                f"no permission to write {path} ({os.strerror(error.errno or 0)}). Choose a folder "
                "that you own by OUT or --out, or set MIXLAB_HOME for caches."
            ) from error
        if error.errno in _NO_PLACE:
            raise MixlabError(
                f"{path} cannot be written: {_NO_PLACE[error.errno]}. Choose another path by "
                "OUT or --out, or set MIXLAB_HOME for caches."
            ) from error
        raise
