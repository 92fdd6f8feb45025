"""YAML that remembers on which line each key and value stands.

The safe constructor only: no Python objects. Two departures from PyYAML's defaults, both because a
sweep file that means something else than it says costs hours: a key given twice is an error (PyYAML
keeps the last in silence), and 1e-3 is a number (YAML 1.1 reads it as text for want of a dot).
"""

import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mixlab.spec.errors import SpecError

Key = str | int
Path_ = tuple[Key, ...]
_MOST_NODES = 100_000
# What PyYAML raises: its constructors let through what int(), date() or a table of words raise,
# and its parser calls itself for each level of nesting.
NOT_YAML = (yaml.YAMLError, ValueError, KeyError, RecursionError)


class _Loader(yaml.SafeLoader):
    pass


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in pairs if tag != "tag:yaml.org,2002:float"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|\.[0-9_]+(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


@dataclass(frozen=True)
class Located:
    """Plain data with the place of every key.

    Attributes:
        data: dicts, lists and scalars.
        file: where it was read from; None for data made in Python.
        lines: 1-based line of each path (a key's own line; an item's first line).
        origins: paths set from elsewhere (`--set a.b=c`), with the text to show for them.
    """

    data: Any
    file: str | None = None
    lines: Mapping[Path_, int] = field(default_factory=dict)
    origins: Mapping[Path_, str] = field(default_factory=dict)

    def line_of(self, path: Path_) -> int | None:
        """Line of `path`, or of its nearest parent that has one."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(tuple(path[:length]))
            if line is not None:
                return line
        return None

    def error(self, path: Path_, message: str) -> SpecError:
        """A SpecError that points at `path`."""
        for length in range(len(path), 0, -1):
            origin = self.origins.get(tuple(path[:length]))
            if origin is not None:
                return SpecError(message, file=origin)
        return SpecError(message, file=self.file, line=self.line_of(path))

    def at(self, *path: Key) -> "Located":
        """The part below `path`, with its places."""
        data = self.data
        for key in path:
            data = data[key]
        size = len(path)
        return Located(
            data,
            self.file,
            {p[size:]: line for p, line in self.lines.items() if p[:size] == path},
            {p[size:]: text for p, text in self.origins.items() if p[:size] == path},
        )


def reason(error: BaseException) -> str:
    """What one of `NOT_YAML` says, in a line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is no value of its tag"
    return " ".join(str(error).split())


def locate(data: Any) -> Located:
    """Data made in Python as Located, without places."""
    return Located(data)


def _walk(
    node: yaml.Node, path: Path_, lines: dict[Path_, int], file: str, above: tuple[int, ...]
) -> None:
    if id(node) in above:
        raise SpecError("an alias refers to itself", file=file, line=node.start_mark.line + 1)
    if len(lines) > _MOST_NODES:
        raise SpecError(f"more than {_MOST_NODES} entries, aliases counted", file=file)
    lines.setdefault(path, node.start_mark.line + 1)
    above = (*above, id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _walk(item, (*path, index), lines, file, above)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[Hashable, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise SpecError("a key must be a plain word", file=file, line=line)
            key = key_node.value
            if key in seen:
                raise SpecError(
                    f"key {key!r} is given twice (first on line {seen[key]}); keep one of them",
                    file=file,
                    line=line,
                )
            seen[key] = line
            lines[(*path, key)] = line
            _walk(value_node, (*path, key), lines, file, above)


def load_yaml(path: str | os.PathLike[str]) -> Located:
    """Read a YAML file whose top is a mapping.

    Raises:
        SpecError: the file is missing, is not UTF-8 YAML, gives a key twice, holds several
            documents, or is no mapping.
    """
    documents = load_documents(path)
    if len(documents) > 1:
        raise SpecError(
            f"holds {len(documents)} documents (separated by ---); expected one",
            file=os.fspath(path),
            line=documents[1].line_of(()),
        )
    return documents[0]


def load_documents(path: str | os.PathLike[str]) -> list[Located]:
    """Read a YAML file of one or more documents, each of them a mapping; empty ones are left out.

    Raises:
        SpecError: as `load_yaml`, but for several documents.
    """
    file = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecError("no such file; check the path", file=file) from None
    except IsADirectoryError:
        raise SpecError("is a folder; expected a YAML file", file=file) from None
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}", file=file) from error
    except UnicodeDecodeError as error:
        raise SpecError(f"is not UTF-8 text ({error.reason})", file=file) from error
    loader = None
    documents = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            empty = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
            if node is None or empty:
                continue
            lines: dict[Path_, int] = {}
            _walk(node, (), lines, file, ())
            data = loader.construct_document(node)
            if not isinstance(data, dict):
                raise SpecError(
                    "expected a mapping of settings (key: value)", file=file, line=lines[()]
                )
            documents.append(Located(data, file, lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SpecError(
            f"is not valid YAML: {error.problem or error.context}",
            file=file,
            line=None if mark is None else mark.line + 1,
        ) from error
    except SpecError:
        raise
    except NOT_YAML as error:
        raise SpecError(f"is not valid YAML: {reason(error)}", file=file) from error
    finally:
        if loader is not None:
            loader.dispose()
    if not documents:
        raise SpecError("is empty; expected a mapping of settings", file=file)
    return documents
