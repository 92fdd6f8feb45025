"""Everyday facts in English: items, and training rows about other facts."""

from pathlib import Path
from typing import Any

from mixlab.testbed.smollm2.item import Question, shuffled

# Relations on which the reference stood between 30% and 90% of the dev facts. The others are
# below: their facts are asked nowhere and serve as short text rows.
ASKED = ("capital", "continent", "opposite", "plural", "language", "symbol", "maker")
DEV_FACTS = 6
REHEARSED_FACTS = 6
TWICE = 100


def read_facts() -> dict[str, list[Question]]:
    """All facts of `facts.txt`, by relation, in the file's order."""
    relations: dict[str, list[Question]] = {}
    name = ""
    table: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    phrases: dict[str, tuple[str, ...]] = {}
    for line in Path(__file__).with_name("facts.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            name, _, rest = line[1:].partition("]")
            phrases[name] = tuple(part.strip() for part in rest.split("|"))
            table[name] = []
            continue
        for pair in line.split(";"):
            subject, _, answers = pair.rpartition("=")
            table[name].append((subject.strip(), tuple(a.strip() for a in answers.split("/"))))
    for name, pairs in table.items():
        pool = list(dict.fromkeys(answers[0] for _, answers in pairs))
        relations[name] = [
            Question(
                id=f"{name}-{number}",
                wordings=tuple(wording.format(s=subject) for wording in phrases[name]),
                answer=answers[0],
                aliases=answers[1:],
                choices=_rivals(answers, pool, f"{name}-{number}"),
                kind=name,
                cluster=f"{name}-{number}",
            )
            for number, (subject, answers) in enumerate(pairs)
        ]
    return relations


def _rivals(answers: tuple[str, ...], pool: list[str], key: str) -> tuple[str, ...]:
    """The answer and three others of its relation: a reader who finds one alone takes it."""
    others = [a for a in pool if a not in answers]
    return (answers[0], *shuffled(others, key, 0)[:3])


def knowledge(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Items (dev and test) and training rows (facts that no tested item asks).

    Rehearsed facts stand in both, in another wording; tested facts stand in items alone.
    """
    items: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    again: list[dict[str, Any]] = []
    for name, questions in read_facts().items():
        if name not in ASKED:
            rows += [q.row(which) for q in questions for which in range(2)]
            continue
        order = shuffled(questions, name, seed)
        dev, rest = order[:DEV_FACTS], order[DEV_FACTS:]
        rehearsed, tested = rest[:REHEARSED_FACTS], rest[REHEARSED_FACTS:]
        items += [q.item(number, "dev", "tested") for number, q in enumerate(dev)]
        for number, q in enumerate(rehearsed):
            items.append(q.item(number, "test", "rehearsed"))
            rows.append(q.row(number + 2))
        for number, q in enumerate(tested):
            items.append(q.item(number, "test", "tested"))
            again.append(q.item(number + 1, "test", "tested", "-again"))
    return items + shuffled(again, "again", seed)[:TWICE], rows
