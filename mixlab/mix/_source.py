"""Sources: rows of a JSONL file, checked once, rendered on demand."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mixlab.formats import ENGLISH, FORMATS, Phrasebook, render, renderable
from mixlab.spec import MixlabError
from mixlab.store import digest

from ._pictures import picture_digest
from ._rows import Row, RowError, read_row
from ._spec import MixSpec, SourceSpec

_PREFIX = re.compile(r"^([A-Za-z][\w-]+):(?![/\\])(.*)$")
_SHOWN = 5


@dataclass(frozen=True)
class Source:
    """Checked rows with one modality.

    Attributes:
        spec: its settings.
        rows: the rows, in the file's order.
        folder: what image paths are relative to.
        phrasebook: wordings for rows without explicit renderings.
        content: digest of the rows and of the images' bytes.
    """

    spec: SourceSpec
    rows: Sequence[Row]
    folder: Path
    phrasebook: Phrasebook
    content: str

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def modality(self) -> str:
        return self.spec.modality

    @cached_property
    def digest(self) -> str:
        """Digest of all that decides the texts and images of a rendered row."""
        return digest([self.content, self.name, self.modality, asdict(self.phrasebook)])

    @cached_property
    def formats(self) -> tuple[tuple[str, ...], ...]:
        """For each row the formats it can be given in, in the order of `FORMATS`."""
        return tuple(self._formats(row) for row in self.rows)

    @cached_property
    def offered(self) -> tuple[str, ...]:
        """Formats that at least one row can be given in."""
        found = {fmt for formats in self.formats for fmt in formats}
        return tuple(fmt for fmt in FORMATS if fmt in found)

    def _formats(self, row: Row) -> tuple[str, ...]:
        if row.messages:
            return (str(row.format),)
        made = {
            fmt
            for fmt in renderable(row.question, row.answer, row.choices)
            if self.phrasebook.supports(fmt)
        }
        return tuple(fmt for fmt in FORMATS if fmt in made or fmt in row.renderings)

    def messages(self, index: int, fmt: str) -> list[dict[str, str]]:
        """The conversation of one row in one format: a list of {role, content}.

        Raises:
            MixlabError: the row can't be given in this format.
        """
        row = self.rows[index]
        if fmt not in self.formats[index]:
            raise MixlabError(
                f"{self.where(index)}: can't be given as {fmt!r}; it can be given as "
                f"{', '.join(self.formats[index])}"
            )
        if row.messages:
            return [dict(message) for message in row.messages]
        if fmt in row.renderings:
            question, answer = row.renderings[fmt]
        else:
            made = render(
                fmt,
                question=row.question,
                answer=row.answer,
                choices=row.choices or None,
                key=f"{self.name}/{row.id}",
                phrasebook=self.phrasebook,
            )
            question, answer = made.question, made.answer
        return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]

    def image(self, index: int) -> Path | None:
        """Path of the row's image, or None."""
        image = self.rows[index].image
        return None if image is None else self.folder / image

    def where(self, index: int) -> str:
        """`source 'name', row 3 (id 'x')`, for messages."""
        return f"source {self.name!r}, row {index} (id {self.rows[index].id!r})"


def load_sources(
    spec: MixSpec, roots: Mapping[str, Path] | None = None, *, folders: Sequence[Path] = (Path(),)
) -> list[Source]:
    """Read and check every source of a mix, images included.

    Args:
        spec: the mix.
        roots: folders that ``prefix:relative`` paths are looked up in.
        folders: what paths without a prefix are relative to: the first that has the file.

    Raises:
        MixlabError: a missing or empty file, or rows that can't be trained on: not JSON,
            non-text content, no supervised token, an image that is missing, truncated or in the
            wrong modality. The message names the source and the row's index (from 0) and line.
    """
    return [_load(source, dict(roots or {}), folders) for source in spec.sources]


def _load(spec: SourceSpec, roots: Mapping[str, Path], folders: Sequence[Path]) -> Source:
    path = find_source(spec.path, roots, folders, spec.name)
    book = ENGLISH
    if spec.phrasebook is not None:
        book = Phrasebook.read(find_source(spec.phrasebook, roots, folders, spec.name))
    rows: list[Row] = []
    problems: list[str] = []
    content = hashlib.sha256()
    pictures: dict[str, str] = {}
    for line, text in _lines(path, spec.name):
        index = len(rows) + len(problems)
        try:
            row = read_row(_json(text), index, spec.modality)
            if row.image is not None and row.image not in pictures:
                pictures[row.image] = picture_digest(path.parent / row.image)
        except RowError as error:
            problems.append(f"source {spec.name!r}, row {index} ({path}:{line}): {error}")
            continue
        content.update(text.strip().encode() + b"\n")
        rows.append(row)
    if problems:
        more = len(problems) - _SHOWN
        tail = [f"... and {more} more rows"] if more > 0 else []
        raise MixlabError("\n".join([*problems[:_SHOWN], *tail]))
    if not rows:
        raise MixlabError(f"source {spec.name!r} is empty: {path} holds no row; give it rows")
    for name in sorted(pictures):
        content.update(f"{name}={pictures[name]}\n".encode())
    return Source(spec, rows, path.parent, book, content.hexdigest()[:16])


def find_source(text: str, roots: Mapping[str, Path], folders: Sequence[Path], name: str) -> Path:
    """The file of a source's path: below a root where it has a prefix, else in a folder.

    Raises:
        MixlabError: the prefix is unknown, or none of the folders has the file.
    """
    found = _PREFIX.match(text)
    if found is None:
        places = [folder / Path(text).expanduser() for folder in folders]
        for place in places:
            if place.is_file():
                return place
        shown = ", ".join(dict.fromkeys(str(place.absolute()) for place in places))
        raise MixlabError(
            f"source {name!r}: no such file: {shown}; expected a JSONL file. Correct its path"
        )
    if found[1] not in roots:
        known = ", ".join(sorted(roots)) or "none"
        raise MixlabError(
            f"source {name!r}: unknown prefix {found[1]!r} in path {text!r}; known: {known}"
        )
    return Path(roots[found[1]]) / found[2]


def _lines(path: Path, name: str) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as handle:
            for number, text in enumerate(handle, start=1):
                if text.strip():
                    yield number, text
    except (OSError, UnicodeDecodeError) as error:
        raise MixlabError(
            f"source {name!r}: can't read {path} ({error}); expected a JSONL file in UTF-8"
        ) from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RowError(f"is not valid JSON ({error})") from error
