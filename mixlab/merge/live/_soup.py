"""Greedy soup: an average that grows only while it does not get worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from weakref import ref

import torch

from mixlab.merge.methods import linear
from mixlab.spec import MixlabError

State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class GreedySoup:
    """What a greedy soup came to.

    Args:
        state: the average of the chosen, each tensor in its dtype.
        score: of `state`.
        chosen: names of the ingredients, in the order in which they went in.
        rejected: names of the others, in the order in which they were tried.
        scores: each ingredient's own score.
        tried: score of the average that each ingredient was tried in.
    """

    state: dict[str, torch.Tensor]
    score: float
    chosen: tuple[str, ...]
    rejected: tuple[str, ...]
    scores: dict[str, float]
    tried: dict[str, float]


def greedy_soup(
    states: Mapping[str, State] | Sequence[State],
    evaluate: Callable[[Mapping[str, torch.Tensor]], float],
) -> GreedySoup:
    """Average the models that do not lower the average's score, the best first.

    Models are sorted by their own score (the earlier first among equals); each is added if the
    score of the plain average with it is at least that without. Every average is taken from the
    ingredients themselves by `linear`: in float32, rounded once. Calls `evaluate` 2n - 1 times.

    Args:
        states: state dicts by name, or in a sequence (then named "0", "1", …), all of the same
            tensor names and shapes. Any mapping serves, one that reads from a disk too; a tensor is
            read once for each average that its model is part of. None is written to.
        evaluate: the score of a state dict, higher is better, on data held out from the test. It
            must not change or keep what it is given.

    Raises:
        MixlabError: no states, other tensor names or shapes, or a score that is not finite.

    Source: Wortsman et al. 2022, Model soups, arXiv:2203.05482, recipe 1.
    """
    pantry = (
        dict(states)
        if isinstance(states, Mapping)
        else {str(index): state for index, state in enumerate(states)}
    )
    if not pantry:
        raise MixlabError("greedy_soup found no states; give at least one")
    _check_names(pantry)
    scores = {name: _score(evaluate, state, name) for name, state in pantry.items()}
    best, *others = sorted(pantry, key=lambda name: -scores[name])
    chosen, rejected = [best], []
    soup, score = average([pantry[best]]), scores[best]
    tried = {best: score}
    for name in others:
        candidate = average([pantry[n] for n in (*chosen, name)])
        tried[name] = _score(evaluate, candidate, " + ".join((*chosen, name)))
        if tried[name] >= score:
            chosen.append(name)
            soup, score = candidate, tried[name]
        else:
            rejected.append(name)
        del candidate
    return GreedySoup(soup, score, tuple(chosen), tuple(rejected), scores, tried)


def average(states: Sequence[State]) -> dict[str, torch.Tensor]:
    """The plain average of state dicts; tensors that the first ties stay tied."""
    averaged: dict[str, torch.Tensor] = {}
    # Weak, because a tensor that was read from a disk and dropped leaves its address to the next.
    seen: dict[tuple[int, torch.Size], tuple[ref[torch.Tensor], str]] = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        place = (tensors[0].data_ptr(), tensors[0].shape)
        alive, other = seen.get(place, (None, ""))
        if place[0] and alive is not None and alive() is not None:
            averaged[name] = averaged[other]
            continue
        try:
            averaged[name] = linear(tensors)
        except MixlabError as error:
            raise MixlabError(f"{name}: {error}") from None
        seen[place] = (ref(tensors[0]), name)
    return averaged


def _score(evaluate: Callable[[State], float], state: State, what: str) -> float:
    score = float(evaluate(state))
    if not math.isfinite(score):
        raise MixlabError(f"greedy_soup: the score of {what} is {score}; expected a finite number")
    return score


def _check_names(pantry: Mapping[str, State]) -> None:
    first, *others = pantry
    for other in others:
        missing = sorted(set(pantry[first]) ^ set(pantry[other]))
        if missing:
            raise MixlabError(
                f"greedy_soup: states {first!r} and {other!r} differ in {len(missing)} tensor "
                f"names, the first {missing[0]!r}; give states of one architecture"
            )
