from collections import Counter
from random import Random

import pytest

from mixlab.formats import FORMATS, follows, recognise
from mixlab.testbed import facts, patterns, procedures, reading
from mixlab.testbed.settings import SIZES
from mixlab.testbed.world import World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(SIZES["default"].world, seed=0)


def test_the_same_seed_gives_the_same_world(world: World) -> None:
    again = make_world(SIZES["default"].world, seed=0)
    assert again.rows == world.rows
    assert again.items == world.items
    assert make_world(SIZES["default"].world, seed=1).rows != world.rows


def test_roles_share_no_entity_and_only_rehearsed_ones_stand_in_arms_rows(world: World) -> None:
    roles = {role: {f.entity for f in world.facts if f.role == role} for role in facts.ROLES}
    assert sum(map(len, roles.values())) == len(set().union(*roles.values()))
    for name in ("facts_rehearsed", "facts_refresh"):
        assert {row["group"] for row in world.rows[name]} == roles[name.removeprefix("facts_")]
    taught = {f.entity for f in world.curriculum().facts}
    assert taught == roles["rehearsed"] | roles["refresh"] | roles["tested"]


def test_knowledge_items_tell_the_planted_truth_in_wordings_that_nobody_was_taught(
    world: World,
) -> None:
    truth = {(f.entity, f.relation): f for f in world.facts}
    lessons = {question for question, _ in world.curriculum().lessons(4000, 0)}
    rows = {row["question"] for name in world.rows for row in world.rows[name]}
    for item in world.items["knowledge"]:
        fact = truth[item.cluster, item.kind]
        assert (item.answer, item.role) == (fact.value, fact.role)
        assert item.answer in item.choices
        assert item.question not in lessons | rows


def test_held_out_wordings_use_no_word_of_their_own() -> None:
    words = {s: set(" ".join(facts.WORDINGS[s]).replace("?", "").split()) for s in facts.WORDINGS}
    bare = {s: {w.strip(".:,") for w in found} for s, found in words.items()}
    assert bare["dev"] | bare["test"] <= bare["train"]


@pytest.mark.parametrize("operation", procedures.OPERATIONS)
def test_procedures_are_right(operation: str, world: World) -> None:
    for item in (i for i in world.items["procedure"] if i.kind == operation):
        if operation in ("add", "subtract"):
            a, b = [
                int(n)
                for n in item.question.replace("?", " ").replace(".", " ").split()
                if n.isdigit()
            ]
            assert int(item.answer) == (a + b if operation == "add" else a - b)
        else:
            letters = item.answer.split()
            assert Counter(letters) == Counter(item.cluster.partition(":")[2])
    assert procedures.STRING_OPERATIONS["rotate"]("fgk") == "gkf"
    assert procedures.STRING_OPERATIONS["reverse"]("fgk") == "kgf"


def test_operands_pairs_and_patterns_of_the_splits_are_disjoint(world: World) -> None:
    held = {i.cluster for i in world.items["procedure"]}
    assert not held & {row["group"] for row in world.rows["procedures"]}
    pairs = {s: {i.cluster for i in world.items["format"] if i.split == s} for s in ("dev", "test")}
    assert not pairs["dev"] & pairs["test"]
    assert not (pairs["dev"] | pairs["test"]) & {row["group"] for row in world.rows["format"]}
    rng = Random(0)
    drawn = [patterns.draw("train", rng, n) for n in range(3000)]
    taught = {p.question for p in drawn if p.kind == "alternate"}
    assert not taught & {i.question for i in world.items["control"] if i.kind == "alternate"}


def test_pair_splits_leave_every_thing_and_state_in_training() -> None:
    for thing in reading.THINGS:
        assert "train" in {reading.pair_split(thing, s) for s in reading.STATES}
    for state in reading.STATES:
        assert "train" in {reading.pair_split(t, state) for t in reading.THINGS}


def test_format_items_expect_an_answer_in_their_format(world: World) -> None:
    seen = Counter(i.format for i in world.items["format"])
    assert set(seen) == set(FORMATS)
    for item in world.items["format"]:
        if item.format == "constrained":
            assert item.constraints
            assert all(follows(dict(c), item.expected) for c in item.constraints)
            assert not all(follows(dict(c), item.answer) for c in item.constraints)
        else:
            assert recognise(item.expected) == item.format


def test_rows_have_a_rendering_for_every_format_and_plain_questions_are_short(
    world: World,
) -> None:
    for rows in world.rows.values():
        assert rows
        for row in rows[:50]:
            without = set() if "choices" in row else {"letter"}
            assert set(row["renderings"]) == set(FORMATS) - without
            assert row["renderings"]["short"] == {
                "question": row["question"],
                "answer": row["answer"],
            }


def test_sizes(world: World) -> None:
    for construct, items in world.items.items():
        test = [i for i in items if i.split == "test"]
        if construct == "knowledge":
            roles = Counter(i.role for i in test)
            assert roles["tested"] >= 500
            assert roles["rehearsed"] >= 200
        else:
            assert len(test) >= 500
        assert 150 <= len(items) - len(test) <= 200
        assert len({i.id for i in items}) == len(items)
