import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlab.merge import greedy_soup, linear
from mixlab.spec import MixlabError


def bowl(state) -> float:
    """Best at the origin."""
    return -float(state["w"].double().square().sum())


def at(*point: float) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor(point)}


def test_planted_bowl():
    # Opposite pairs average to the origin, and "far" spoils every average.
    states = {"far": at(9.0, 9.0), "e": at(1.0, 0.0), "w": at(-1.1, 0.0), "n": at(0.0, 1.2)}
    soup = greedy_soup(states, bowl)
    scores = {
        names: bowl({"w": linear([states[n]["w"] for n in names])})
        for size in range(1, 5)
        for names in itertools.combinations(states, size)
    }
    assert set(soup.chosen) == set(max(scores, key=scores.__getitem__)) == {"e", "w"}
    assert soup.chosen == ("e", "w")
    assert soup.rejected == ("n", "far")
    assert soup.scores["far"] == -162
    assert soup.score == bowl(soup.state) == soup.tried["w"]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 999), st.integers(1, 6), st.sampled_from([torch.float32, torch.bfloat16]))
def test_the_recipe_step_by_step(seed, count, dtype):
    generator = torch.Generator().manual_seed(seed)
    states = [{"w": torch.randn(3, generator=generator).to(dtype)} for _ in range(count)]
    calls = []

    def evaluate(state) -> float:
        calls.append(state)
        return bowl(state)

    soup = greedy_soup(states, evaluate)
    assert len(calls) == 2 * count - 1
    assert soup.score >= max(soup.scores.values())
    # Adding any rejected one at its turn would have lowered the score.
    ranked = sorted(soup.scores, key=lambda n: -soup.scores[n])
    inside = [ranked[0]]
    for name in ranked[1:]:
        before = bowl({"w": linear([states[int(n)]["w"] for n in inside])})
        after = bowl({"w": linear([states[int(n)]["w"] for n in (*inside, name)])})
        assert (name in soup.chosen) == (after >= before)
        inside += [name] if name in soup.chosen else []
    expected = linear([states[int(n)]["w"] for n in soup.chosen])
    assert torch.equal(soup.state["w"], expected)
    assert soup.state["w"].dtype == dtype


def test_an_equal_score_is_no_fall_and_the_state_is_new():
    states = {"a": at(1.0), "b": at(1.0), "c": at(1.0)}
    soup = greedy_soup(states, bowl)
    assert soup.chosen == ("a", "b", "c")
    soup.state["w"].fill_(7)
    assert all(state["w"].item() == 1 for state in states.values())
    alone = greedy_soup([states["a"]], bowl).state["w"]
    assert alone.data_ptr() != states["a"]["w"].data_ptr()


def test_ties_hold_and_buffers_are_copied():
    table = torch.ones(2)
    states = [
        {"embed": table, "head": table, "ids": torch.arange(2)},
        {"embed": torch.zeros(2), "head": torch.zeros(2), "ids": torch.arange(2)},
    ]
    soup = greedy_soup(states, lambda state: 1.0).state
    assert soup["embed"].data_ptr() == soup["head"].data_ptr()
    assert soup["embed"].tolist() == [0.5, 0.5]
    assert soup["ids"].tolist() == [0, 1]


def test_a_mapping_that_reads_anew_is_not_taken_for_tied():
    class Disk(dict):
        def __getitem__(self, name):
            return super().__getitem__(name).clone()

    made = [Disk(a=torch.full((8,), 1.0 + k), b=torch.full((8,), 5.0 + k)) for k in range(2)]
    soup = greedy_soup(made, lambda state: 1.0).state
    assert (soup["a"][0].item(), soup["b"][0].item()) == (1.5, 5.5)


def test_mistakes_are_named():
    with pytest.raises(MixlabError, match="no states"):
        greedy_soup([], bowl)
    with pytest.raises(MixlabError, match=r"'0' and '1' differ in 1 tensor names.*'v'"):
        greedy_soup([at(1.0), {**at(1.0), "v": torch.zeros(1)}], bowl)
    with pytest.raises(MixlabError, match=r"the score of 1 is nan"):
        greedy_soup([at(1.0), at(float("nan"))], bowl)
    with pytest.raises(MixlabError, match=r"w: shapes differ: \[1\] and \[2\]"):
        greedy_soup([at(1.0), at(1.0, 2.0)], bowl)
