"""A folder of safetensors as a source of tensors: checked when opened, read in parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.checkpoint._dtypes import torch_dtype
from mixlab.checkpoint._header import TensorEntry, open_file, read_open_header
from mixlab.checkpoint._index import INDEX, SINGLE, check_inside, read_index, read_json_object
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import torch

_STALE = "are these shards of another model? Remove the stale ones, or save the model again"


class Checkpoint:
    """Tensors of a Hugging Face folder (a `TensorSource`), for any number of threads.

    Files are read through descriptors of its own, not mapped: a mapped file counts as resident
    memory, and one that is cut short while read would kill the process.

    Args:
        folder: a folder with `model.safetensors`, or shards and their index.
        key: see `TensorSource.key`; the folder's name by default.

    Raises:
        MixlabError: there are no safetensors weights, a header or the index does not hold, or they
            do not agree with each other.
    """

    def __init__(self, folder: str | Path, *, key: str | None = None) -> None:
        self.folder = Path(folder)
        self.key = key if key is not None else self.folder.resolve().name
        self.entries: dict[str, TensorEntry] = {}
        self.files: tuple[Path, ...] = ()
        self._files: dict[Path, tuple[int, tuple[int, ...]]] = {}
        self._file_of: dict[str, Path] = {}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, folder: str | Path, *, key: str | None = None) -> Checkpoint:
        """The same as the class itself, for `with Checkpoint.open(folder) as checkpoint`."""
        return cls(folder, key=key)

    def _open(self) -> None:
        index = read_index(self.folder)
        for name in sorted({SINGLE} if index is None else set(index.values())):
            path = self.folder / name
            descriptor = open_file(path)
            self._files[path] = descriptor, _identity(os.fstat(descriptor))
            for tensor, entry in read_open_header(descriptor, path).items():
                if tensor in self.entries:
                    raise MixlabError(
                        f"{path}: {tensor} also stands in another shard, "
                        f"{self._file_of[tensor].name}; {_STALE}"
                    )
                if index is not None and index.get(tensor) != name:
                    raise MixlabError(
                        f"{path} holds {tensor}, which {INDEX} "
                        f"{'places in ' + index[tensor] if tensor in index else 'does not name'}; "
                        f"{_STALE}"
                    )
                self.entries[tensor] = entry
                self._file_of[tensor] = path
        self.files = tuple(self._files)
        for tensor in index or ():
            if tensor not in self.entries:
                raise MixlabError(
                    f"{self.folder / INDEX} names {tensor}, but {(index or {})[tensor]} does not "
                    f"hold it; {_STALE}"
                )

    @property
    def tied(self) -> bool | None:
        """`tie_word_embeddings` of the config or its text config; None where neither says."""
        config = self.config()
        text = config.get("text_config")
        for part in (config, text if isinstance(text, dict) else {}):
            if isinstance(part.get("tie_word_embeddings"), bool):
                return part["tie_word_embeddings"]
        return None

    def entry(self, name: str) -> TensorEntry:
        """Dtype, shape and place of a tensor.

        Raises:
            MixlabError: the checkpoint has no such tensor.
        """
        try:
            return self.entries[name]
        except KeyError:
            raise MixlabError(f"{self.folder}: no tensor {name}") from None

    def file_of(self, name: str) -> Path:
        """The file that holds a tensor."""
        self.entry(name)
        return self._file_of[name]

    def offset(self, name: str) -> int:
        """Where the tensor begins in `file_of(name)`, in bytes."""
        return self.entry(name).start

    def config(self) -> dict[str, Any]:
        """`config.json` as plain data; nothing in it is run.

        Raises:
            MixlabError: it is missing or no JSON object.
        """
        path = self.folder / "config.json"
        if not os.path.lexists(path):
            raise MixlabError(f"{self.folder}: no config.json; is it a Hugging Face model folder?")
        check_inside(self.folder, path.name)
        return read_json_object(path)

    def streams(self, name: str) -> bool:
        """Any part of any tensor can be read by itself."""
        return True

    def read_into(self, name: str, buffer: memoryview, start: int) -> None:
        """Fill `buffer` with the tensor's bytes from byte `start` on.

        Raises:
            MixlabError: the file ends early, or changed since it was opened; the checkpoint is
                closed; the tensor is shorter.
        """
        entry, path = self.entry(name), self._file_of[name]
        view = buffer.cast("B") if buffer.nbytes else buffer
        at, stop = entry.start + start, entry.start + start + view.nbytes
        if start < 0 or stop > entry.stop:
            raise MixlabError(
                f"{path}: {name} has {entry.stop - entry.start} bytes; bytes {start} to "
                f"{start + view.nbytes} were asked for"
            )
        descriptor, identity = self._opened(path)
        done = 0
        try:
            while at + done < stop:
                got = os.preadv(descriptor, [view[done:]], at + done)
                if not got:
                    raise MixlabError(
                        f"{path} ends at byte {at + done}, within tensor {name}: it was cut short "
                        "while it was read. Let nothing write to an input during a merge"
                    )
                done += got
            # After the read: whatever was read before a change is then known to be whole.
            unchanged = _identity(os.fstat(descriptor)) == identity
        except OSError as error:
            raise MixlabError(f"{path}: tensor {name} cannot be read: {error.strerror}") from error
        if not unchanged:
            raise MixlabError(_changed(path))

    def read(self, name: str) -> torch.Tensor:
        """The whole tensor, fresh, on the CPU, in its stored dtype and shape.

        Raises:
            MixlabError: as `read_into`; the dtype is narrower than a byte.
        """
        import torch

        entry = self.entry(name)
        tensor = torch.empty(entry.shape, dtype=torch_dtype(entry.dtype))
        if tensor.numel():
            raw = tensor.reshape(-1).view(torch.uint8).numpy()
            self.read_into(name, raw.data, 0)
        return tensor

    def unchanged(self) -> None:
        """Check that every weight file is the one that was opened, of the same size and time.

        Raises:
            MixlabError: naming the file that changed or was replaced.
        """
        for path, (_, identity) in self._files.items():
            try:
                now = _identity(path.stat())
            except OSError:
                now = ()
            if now != identity:
                raise MixlabError(_changed(path))

    def descriptor(self, name: str) -> int:
        """The open file that holds a tensor, for copying by the kernel; it stays ours to close."""
        return self._opened(self.file_of(name))[0]

    def _opened(self, path: Path) -> tuple[int, tuple[int, ...]]:
        try:
            return self._files[path]
        except KeyError:
            raise MixlabError(f"{self.folder}: the checkpoint was closed; open it again") from None

    def close(self) -> None:
        """Close the files. Names and shapes stay known."""
        while self._files:
            os.close(self._files.popitem()[1][0])

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _changed(path: Path) -> str:
    return f"{path} changed since it was opened; let nothing write to an input during a merge"
