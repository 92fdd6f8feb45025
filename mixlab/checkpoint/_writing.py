"""A sharded checkpoint written part by part, by any number of threads, into files of full size."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from mixlab.checkpoint._copying import copy_range, link_or_copy_file, write_all
from mixlab.checkpoint._header import TensorEntry, open_file, read_header
from mixlab.checkpoint._index import INDEX, is_bare
from mixlab.checkpoint._layout import Shard, lay_out
from mixlab.checkpoint._writeback import start_writeback
from mixlab.spec import MixlabError
from mixlab.store import disk_errors, write_text

_NO_PREALLOCATION = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class ShardWriter:
    """Writes the weights of a model folder.

    Every file gets its full size before the first byte of a tensor, so that a full disk shows at
    once. The folder is for the caller to make, and to move into place (`atomic_folder`).

    Args:
        folder: an existing folder without weights.
        shards: of `plan_shards`.
        metadata: of every file's header; transformers refuses a file without `format`.

    Raises:
        MixlabError: a file name is not bare or stands twice.
    """

    def __init__(
        self,
        folder: str | Path,
        shards: Sequence[Shard],
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.shards = tuple(shards)
        self._shard = {shard.file_name: shard for shard in self.shards}
        if len(self._shard) != len(self.shards) or not all(map(is_bare, self._shard)):
            raise MixlabError(f"{self.folder}: shards need names of their own, without folders")
        self._metadata = {"format": "pt"} if metadata is None else dict(metadata)
        self._file_of = {t.name: s.file_name for s in self.shards for t in s.tensors}
        self._descriptors: dict[str, int] = {}
        self._entries: dict[str, TensorEntry] = {}
        self._written: dict[str, int] = dict.fromkeys(self._file_of, 0)
        self._whole: set[str] = set()
        self._made: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._ready = False

    @property
    def total_size(self) -> int:
        """Bytes of all tensors."""
        return sum(shard.size for shard in self.shards)

    def link_or_copy(self, path: str | Path, file_name: str, *, hard: bool = False) -> None:
        """Take a whole file as the shard `file_name`; before the first `write`.

        Blocks are shared where the file system can (reflink), else copied within the kernel.

        Args:
            hard: a hard link where possible, see `link_or_copy_file`.

        Raises:
            MixlabError: the file does not hold exactly the tensors of that shard, or writing has
                begun.
        """
        path, shard = Path(path), self._shard[file_name]
        with self._lock:
            if self._ready or file_name in self._whole:
                raise MixlabError(f"{file_name}: whole files are taken once, before any tensor")
            held = {(e.name, e.dtype, e.shape) for e in read_header(path).values()}
            wanted = {(t.name, t.dtype, t.shape) for t in shard.tensors}
            if held != wanted:
                raise MixlabError(
                    f"{path} does not hold the tensors of {file_name}, e.g. "
                    f"{min(held ^ wanted)[0]}; write that shard tensor by tensor"
                )
            link_or_copy_file(path, self.folder / file_name, hard=hard)
            self._whole.add(file_name)

    def preallocate(self) -> None:
        """Make the files that were not taken whole, with headers, in full size.

        The first `write` does it too.

        Raises:
            MixlabError: the disk is full or refuses; a file is there already.
        """
        with self._lock:
            if self._ready:
                return
            for shard in self.shards:
                if shard.file_name not in self._whole:
                    self._make(shard)
            self._ready = True

    def _make(self, shard: Shard) -> None:
        path = self.folder / shard.file_name
        head, entries = lay_out(shard.tensors, self._metadata)
        if os.path.lexists(path):
            raise MixlabError(f"{path} is there already; write into an empty folder")
        with disk_errors(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o666)
            self._descriptors[shard.file_name] = descriptor
            size = len(head) + shard.size
            try:
                os.posix_fallocate(descriptor, 0, size)
            except OSError as error:
                if error.errno not in _NO_PREALLOCATION:
                    raise
                os.ftruncate(descriptor, size)
            write_all(descriptor, memoryview(head), 0)
        self._entries.update(entries)

    def write(self, name: str, start: int, buffer: memoryview) -> None:
        """Write a part of a tensor from its byte `start` on. Each byte is written once.

        Raises:
            MixlabError: no such tensor, or the part lies outside it; the disk is full.
        """
        view = buffer.cast("B") if buffer.nbytes else buffer
        descriptor, at = self._place(name, start, view.nbytes)
        with disk_errors(self.folder / self._file_of[name]):
            write_all(descriptor, view, at)
        start_writeback(descriptor, at, view.nbytes)
        self._count(name, view.nbytes)

    def copy_from(
        self, source: str | Path | int, offset: int, name: str, start: int, length: int
    ) -> None:
        """Copy a part of a tensor from a file, within the kernel where it can.

        Args:
            source: a path, or an open file (`Checkpoint.descriptor`).
            offset: where the part begins in that file.

        Raises:
            MixlabError: as `write`; the source ends early.
        """
        target, at = self._place(name, start, length)
        descriptor = source if isinstance(source, int) else open_file(Path(source))
        try:
            with disk_errors(self.folder / self._file_of[name]):
                done = copy_range(descriptor, offset, target, at, length)
        finally:
            if not isinstance(source, int):
                os.close(descriptor)
        if done < length:
            raise MixlabError(f"the file of {name} was cut short while it was copied ({source})")
        self._count(name, length)

    def _place(self, name: str, start: int, length: int) -> tuple[int, int]:
        if not self._ready:
            self.preallocate()
        entry = self._entries.get(name)
        if entry is None:
            whole = self._file_of.get(name) in self._whole
            raise MixlabError(
                f"{name}: {'its shard was taken whole' if whole else 'not in the plan of shards'}"
            )
        at = entry.start + start
        if start < 0 or at + length > entry.stop:
            raise MixlabError(
                f"{name} has {entry.stop - entry.start} bytes; bytes {start} to {start + length} "
                "cannot be written to it"
            )
        return self._descriptors[self._file_of[name]], at

    def _count(self, name: str, length: int) -> None:
        with self._lock:
            self._written[name] += length

    def finish(self) -> None:
        """Check that every tensor is complete, flush the files to disk, write the index.

        A single file has no index.

        Raises:
            MixlabError: a tensor was not written, or in part, or twice; the disk refuses.
        """
        self.preallocate()
        for name, entry in self._entries.items():
            size = entry.stop - entry.start
            if self._written[name] != size:
                raise MixlabError(
                    f"{self.folder / self._file_of[name]}: {self._written[name]} bytes of {name} "
                    f"were written, expected {size}"
                )
        with disk_errors(self.folder):
            for name, descriptor in self._descriptors.items():
                os.fsync(descriptor)
                self._made[self.folder / name] = os.fstat(descriptor).st_size
            for name in self._whole:
                self._made[self.folder / name] = self._flush(self.folder / name)
        self.close()
        self.check_in_place()
        if len(self.shards) > 1:
            index = {
                "metadata": {"total_size": self.total_size},
                "weight_map": dict(sorted(self._file_of.items())),
            }
            write_text(self.folder / INDEX, json.dumps(index, indent=2, ensure_ascii=False) + "\n")

    def check_in_place(self) -> None:
        """Check that the files that were written still stand under their names.

        Whoever removes one while it is open disturbs no `write`: its bytes would be lost.

        Raises:
            MixlabError: naming the file.
        """
        for path, size in self._made.items():
            if not path.exists() or path.stat().st_size != size:
                raise MixlabError(
                    f"{path} was removed or replaced by another program while it was written; let "
                    "nothing clean that folder during a merge, and merge again"
                )

    @staticmethod
    def _flush(path: Path) -> int:
        descriptor = open_file(path)
        try:
            os.fsync(descriptor)
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the files; what is not finished stays as it is."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
