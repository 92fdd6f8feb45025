"""Foreign rows (IFEval, GSM8K, HellaSwag) read as they are published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mixlab.score._task import Item
from mixlab.spec import MixlabError


@dataclass(frozen=True)
class Adapter:
    """How the rows of one published set become items, and the task's defaults.

    `hub_config` and `hub_split` are what the hub calls the part that results are reported on.
    """

    read: Callable[[Mapping[str, Any], str, str], Item]
    construct: str
    metric: str
    max_new_tokens: int
    template: str | None
    hub_config: str | None
    hub_split: str


def _get(row: Mapping[str, Any], names: tuple[str, ...], where: str, adapter: str) -> Any:
    for name in names:
        if row.get(name) is not None:
            return row[name]
    raise MixlabError(
        f"{where}: no field {' or '.join(map(repr, names))}, which adapter {adapter!r} needs; "
        f"the row has {', '.join(map(str, row))}"
    )


def _ifeval(row: Mapping[str, Any], where: str, number: str) -> Item:
    """{key, prompt, instruction_id_list, kwargs}: no gold answer, only the form is judged.

    Zhou et al. 2023, arXiv:2311.07911. Parquet fills absent keyword arguments with null, which
    are dropped here.
    """
    ids = _get(row, ("instruction_id_list",), where, "ifeval")
    kwargs = _get(row, ("kwargs",), where, "ifeval")
    if len(ids) != len(kwargs):
        raise MixlabError(f"{where}: {len(ids)} instruction ids but {len(kwargs)} kwargs")
    pairs = tuple(
        (str(name), {key: value for key, value in (given or {}).items() if value is not None})
        for name, given in zip(ids, kwargs, strict=True)
    )
    key = str(row.get("key", number))
    return Item(
        id=key,
        question=str(_get(row, ("prompt",), where, "ifeval")),
        answer="",
        cluster=key,
        format="constrained",
        kind=pairs[0][0] if len(pairs) == 1 else "several",
        ifeval=pairs,
    )


def _gsm8k(row: Mapping[str, Any], where: str, number: str) -> Item:
    """{question, answer} whose answer ends in "#### n" (Cobbe et al. 2021, arXiv:2110.14168)."""
    answer = str(_get(row, ("answer",), where, "gsm8k"))
    _, mark, gold = answer.rpartition("####")
    gold = gold.strip().replace(",", "")
    if not mark or not gold:
        raise MixlabError(f'{where}: the answer has no "#### n"; found {answer[-60:]!r}')
    key = str(row.get("id", number))
    question = str(_get(row, ("question",), where, "gsm8k"))
    return Item(id=key, question=question, answer=gold, cluster=key, format="short", kind="gsm8k")


def _hellaswag(row: Mapping[str, Any], where: str, number: str) -> Item:
    """{context or ctx, endings, label} (Zellers et al. 2019, arXiv:1905.07830)."""
    endings = tuple(map(str, _get(row, ("endings",), where, "hellaswag")))
    label = int(_get(row, ("label",), where, "hellaswag"))
    if not 0 <= label < len(endings):
        raise MixlabError(f"{where}: label {label} is outside the {len(endings)} endings")
    context = str(_get(row, ("context", "ctx"), where, "hellaswag"))
    key = str(row.get("id", row.get("ind", number)))
    return Item(
        id=key,
        question=context,
        answer=endings[label],
        choices=endings,
        cluster=key,
        format="long",
        kind=str(row.get("activity_label", "hellaswag")),
    )


ADAPTERS: dict[str, Adapter] = {
    "ifeval": Adapter(_ifeval, "format", "form", 512, None, None, "train"),
    "gsm8k": Adapter(_gsm8k, "procedure", "exact", 256, None, "main", "test"),
    # Plain text: an ending continues its context, which no chat turn does.
    "hellaswag": Adapter(_hellaswag, "knowledge", "choice", 1, "plain", None, "validation"),
}
"""Readers of published rows, by name."""
