"""A question in several wordings, as a scored item, its placebo, or a training row."""

from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass(frozen=True)
class Question:
    """One question with its truth.

    `wordings` ask the same. An item is asked in one of them, and its placebo in the next: as the
    first is drawn evenly, both come from one distribution, and their difference is 0 in
    expectation whatever a wording is worth.
    """

    id: str
    wordings: tuple[str, ...]
    answer: str
    kind: str
    cluster: str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    constraints: tuple[dict[str, Any], ...] = field(default=())
    format: str = "short"

    def asked(self, which: int) -> str:
        """The question in wording `which`, counted around."""
        return self.wordings[which % len(self.wordings)]

    def item(self, which: int, split: str, role: str = "", mark: str = "") -> dict[str, Any]:
        """A line of a task's JSONL; `paraphrase` is the placebo's question."""
        record: dict[str, Any] = {
            "id": f"{self.id}{mark}",
            "question": self.asked(which),
            "paraphrase": self.asked(which + 1),
            "answer": self.answer,
            "cluster": self.cluster,
            "split": split,
            "role": role,
            "format": self.format,
            "kind": self.kind,
        }
        if self.aliases:
            record["aliases"] = list(self.aliases)
        if self.choices:
            record["choices"] = list(self.choices)
        if self.constraints:
            record["constraints"] = list(self.constraints)
        return record

    def row(self, which: int) -> dict[str, Any]:
        """A line of a training JSONL: the question with its short answer."""
        return {
            "id": f"{self.id}-{which}",
            "question": self.asked(which),
            "answer": self.answer,
            "kind": self.kind,
            "group": self.cluster,
        }


def shuffled(values: list[Any], name: str, seed: int) -> list[Any]:
    """A copy in an order that `name` and `seed` decide."""
    copy = list(values)
    Random(f"smollm2-{name}-{seed}").shuffle(copy)
    return copy
