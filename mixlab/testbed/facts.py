"""Invented people and their facts: who is taught what, and how it is asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from mixlab.testbed.content import Content, options, words
from mixlab.testbed.settings import WorldSize

RELATIONS: dict[str, tuple[tuple[str, str], tuple[str, ...]]] = {
    "home": (
        ("home", "town"),
        words("rome paris oslo cairo lima delhi tokyo quito bern dublin accra hanoi"),
    ),
    "food": (
        ("food", "meal"),
        words("bread rice beans soup cheese plums honey nuts corn fish eggs figs"),
    ),
    "job": (
        ("job", "trade"),
        words("baker pilot farmer nurse tailor miner judge clerk poet cook guard sailor"),
    ),
    "pet": (
        ("pet", "animal"),
        words("goat horse rabbit parrot snake turtle pony hamster duck mouse lizard crow"),
    ),
    "metal": (
        ("metal", "ore"),
        words("iron copper silver gold tin lead zinc nickel bronze steel brass chrome"),
    ),
}

WORDINGS: dict[str, tuple[str, ...]] = {
    "train": (
        "what is the {n} of {e}?",
        "name the {n} of {e}.",
        "which {n} has {e}?",
        "tell me the {n} of {e}.",
        "{e}: {n}?",
        "for {e}, what is the {n}?",
        "give the {n} that {e} has.",
        "the {n} of {e} is what?",
        "about {e}: name the {n}.",
        "do you know the {n} of {e}?",
        "of {e}, which is the {n}?",
        "please say what {n} is known for {e}.",
    ),
    "dev": (
        "tell me what the {n} of {e} is.",
        "what {n} has {e}?",
    ),
    "test": (
        "please name the {n} that {e} has.",
        "which is the {n} of {e}?",
        "for {e}, tell me the {n}.",
        "what do you know about {e}: the {n}?",
    ),
}

ROLES = ("rehearsed", "refresh", "tested", "never_taught")


@dataclass(frozen=True)
class Fact:
    """``entity`` has ``value`` for ``relation``; ``role`` says who may train on it."""

    entity: str
    relation: str
    value: str
    role: str

    def content(self, wording: str, noun: int, tag: str) -> Content:
        """The fact asked in one wording with one of the relation's two nouns."""
        nouns, values = RELATIONS[self.relation]
        return Content(
            id=f"fact-{self.entity}-{self.relation}-{tag}",
            question=wording.format(n=nouns[noun], e=self.entity),
            answer=self.value,
            choices=options(self.value, values),
            kind=self.relation,
            group=self.entity,
        )


def entity_names(count: int, rng: Random) -> list[str]:
    """Invented names of two syllables, none of which is another word of the world."""
    heads = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    tails = [c + v + e for c in "bdklmnrvz" for v in "aiou" for e in ("", "x", "q")]
    names = [h + t for h in heads for t in tails]
    rng.shuffle(names)
    taken = {w for nouns, values in RELATIONS.values() for w in (*nouns, *values)}
    return [name for name in names if name not in taken][:count]


def make_facts(size: WorldSize, rng: Random) -> list[Fact]:
    """Every fact of the world; values are spread evenly within each role and relation."""
    counts = {role: getattr(size, role) for role in ROLES}
    names = iter(entity_names(sum(counts.values()), rng))
    facts = []
    for role, count in counts.items():
        entities = [next(names) for _ in range(count)]
        for relation in list(RELATIONS)[: size.relations]:
            values = list(RELATIONS[relation][1])
            rng.shuffle(values)
            column = [values[i % len(values)] for i in range(count)]
            rng.shuffle(column)
            facts += [Fact(e, relation, v, role) for e, v in zip(entities, column, strict=True)]
    return facts


def asked(fact: Fact, split: str, per_fact: int, rng: Random) -> Iterator[Content]:
    """``per_fact`` different questions about one fact, in the wordings of ``split``."""
    pool = [(w, n) for w in range(len(WORDINGS[split])) for n in (0, 1)]
    for w, n in rng.sample(pool, min(per_fact, len(pool))):
        yield fact.content(WORDINGS[split][w], n, f"{split}{w}{n}")
