"""A task from its YAML, or from published rows in a file or on the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mixlab.score._adapters import ADAPTERS
from mixlab.score._items import item_of
from mixlab.score._judge import check_gold
from mixlab.score._task import Item, Task, check_word, read_rows
from mixlab.spec import MixlabError, parse

HUB = "hub:"


class TaskFile(BaseModel):
    """What a task's YAML holds.

    `items` is a JSONL or Parquet file beside the YAML, or "hub:owner/name" with `adapter` or
    `fields`. `fields` maps our names to the rows' own ({question: prompt, answer: target}).
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    items: str
    # BaseModel has a method named construct.
    about: Literal["knowledge", "procedure", "format", "vision", "control"] | None = Field(
        default=None, alias="construct"
    )
    metric: Literal["exact", "form", "choice"] | None = None
    max_new_tokens: int | None = Field(default=None, ge=1)
    template: Literal["chat", "plain"] | None = None
    fields: dict[str, str] = Field(default_factory=dict)
    adapter: Literal["ifeval", "gsm8k", "hellaswag"] | None = None
    split: Literal["dev", "test"] | None = None
    limit: int | None = Field(default=None, ge=1)
    hub_config: str | None = None
    hub_split: str | None = None


def load_task(path: str | Path) -> Task:
    """The task that a YAML file describes, every row checked.

    Raises MixlabError naming file and row for a missing field, no items, duplicate ids, an
    unknown word, a missing image, or a gold answer that no extractor can produce.
    """
    path = Path(path)
    return _build(parse(TaskFile, path), path)


def foreign_task(adapter: str, source: str | Path, *, limit: int | None = None) -> Task:
    """A task from published rows: `source` is a JSONL or Parquet file, or a hub id.

    `adapter` is ifeval, gsm8k or hellaswag. A hub id is asked of the hub only here, because the
    caller named it.
    """
    check_word(adapter, tuple(ADAPTERS), "adapter")
    local = Path(source).expanduser()
    items = str(local.resolve()) if local.exists() or local.suffix else f"{HUB}{source}"
    given = TaskFile.model_validate(
        {"name": adapter, "items": items, "adapter": adapter, "limit": limit}
    )
    return _build(given, Path(f"{adapter}.yaml"))


def _build(file: TaskFile, path: Path) -> Task:
    adapter = None if file.adapter is None else ADAPTERS[file.adapter]
    construct = file.about or (adapter.construct if adapter else None)
    metric = file.metric or (adapter.metric if adapter else None)
    length = file.max_new_tokens or (adapter.max_new_tokens if adapter else None)
    if construct is None or metric is None or length is None:
        absent = [
            name
            for name, value in (
                ("construct", construct),
                ("metric", metric),
                ("max_new_tokens", length),
            )
            if value is None
        ]
        raise MixlabError(f"{path}: {', '.join(absent)} missing; only an `adapter` has defaults")
    read: Callable[[Mapping[str, Any], str, str], Item]
    if adapter is not None:
        read = adapter.read
    else:
        folder = (path.parent / file.items).parent

        def read(row: Mapping[str, Any], where: str, number: str) -> Item:
            return item_of(row, where, folder, metric)

    items: list[Item] = []
    seen: dict[str, str] = {}
    for number, (where, row) in enumerate(_rows(file, path)):
        if file.limit is not None and number >= file.limit:
            break
        mapped = {**row, **{ours: row.get(theirs) for ours, theirs in file.fields.items()}}
        item = read(mapped, where, str(number))
        if file.split is not None:
            item = replace(item, split=file.split)
        if item.id in seen:
            raise MixlabError(
                f"{where}: id {item.id!r} was already used at {seen[item.id]}; ids must be unique"
            )
        seen[item.id] = where
        check_gold(item, metric, where)
        items.append(item)
    if not items:
        raise MixlabError(f"{path}: {file.items} holds no items; a task needs at least one")
    return Task(
        file.name,
        construct,
        metric,
        length,
        tuple(items),
        template=file.template or (adapter.template if adapter else None),
    )


def _rows(file: TaskFile, path: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    if not file.items.startswith(HUB):
        return read_rows(path.parent / file.items)
    adapter = None if file.adapter is None else ADAPTERS[file.adapter]
    config = file.hub_config or (adapter.hub_config if adapter else None)
    split = file.hub_split or (adapter.hub_split if adapter else "test")
    return hub_rows(file.items.removeprefix(HUB), config, split)


def hub_rows(name: str, config: str | None, split: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Rows of a hub data set, with (where) for errors.

    Raises MixlabError that names the local ways when the hub can't be reached.
    """
    from datasets import load_dataset

    try:
        rows = load_dataset(name, config, split=split)
    except Exception as error:
        raise MixlabError(
            f"could not load {name!r} from the hub ({type(error).__name__}: {error}). Without a "
            "network, save its rows as JSONL or Parquet and give that path instead, or download "
            "it once with `datasets` and set HF_HOME to that cache"
        ) from error
    return ((f"{name}[{split}] row {number}", dict(row)) for number, row in enumerate(rows, 1))
