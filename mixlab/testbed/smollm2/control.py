"""Negative control: which verb agrees with its subject, with another noun in between."""

from random import Random
from typing import Any

from mixlab.testbed.smollm2.words import words

_NOUNS, _REST = words("subjects"), words("predicates")
_BETWEEN = ("near", "behind", "next to", "in front of", "beside")
_VERBS = (("is", "are"), ("was", "were"), ("has been", "have been"))


def control_items(seed: int, dev: int, test: int) -> list[dict[str, Any]]:
    """Pairs of sentences that differ in the number of the verb; subjects are even in number.

    The noun between subject and verb has the other number, so that a neighbour's form misleads.
    """
    items = []
    for split, count in (("dev", dev), ("test", test)):
        rng = Random(f"control-{split}-{seed}")
        for number in range(count):
            subject, other = rng.sample(_NOUNS, 2)
            plural = number % 2
            between, rest, verbs = rng.choice(_BETWEEN), rng.choice(_REST), rng.choice(_VERBS)
            start = f"The {subject}{'s' * plural} {between} the {other}{'s' * (1 - plural)}"
            choices = [f"{start} {verb} {rest}." for verb in verbs]
            key = f"agreement-{split}-{number}"
            items.append(
                {
                    "id": key,
                    "question": "Here is a sentence:",
                    "paraphrase": "This is a sentence:",
                    "answer": choices[plural],
                    "choices": choices,
                    "cluster": f"{subject}-{other}",
                    "split": split,
                    "role": "",
                    "format": "sentence",
                    "kind": "agreement",
                }
            )
    return items
