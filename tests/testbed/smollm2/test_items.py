"""The English items: disjoint splits, verifiable instructions, a placebo without a bias."""

from collections import Counter

import pytest

from mixlab.formats import follows
from mixlab.score import PROTOCOLS, load_task
from mixlab.score._judge import judge
from mixlab.testbed.smollm2.control import control_items
from mixlab.testbed.smollm2.instructions import KINDS, TOPICS, instruction_items, instructions
from mixlab.testbed.smollm2.knowledge import ASKED, knowledge, read_facts
from mixlab.testbed.smollm2.replay import replay_prompts
from mixlab.testbed.smollm2.size import DEFAULT
from mixlab.testbed.smollm2.tasks import TASKS, text_items, write_tasks


@pytest.fixture(scope="module")
def made():
    return text_items(DEFAULT, 0)


@pytest.fixture(scope="module")
def tasks(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    write_tasks(folder, made[0])
    return folder


def test_every_fact_has_three_wordings_and_stands_once():
    facts = [q for questions in read_facts().values() for q in questions]
    assert len({q.wordings for q in facts}) == len(facts)
    assert all(len(q.wordings) == 3 and "{s}" not in "".join(q.wordings) for q in facts)
    assert all(q.answer in q.choices and len(set(q.choices)) == 4 for q in facts)


def test_tested_facts_stand_in_no_training_row():
    items, rows = knowledge(0)
    taught = {row["group"] for row in rows}
    for item in items:
        assert (item["cluster"] in taught) == (item["role"] == "rehearsed")
    asked = {(row["group"], row["question"]) for row in rows}
    assert not asked & {(i["cluster"], i["question"]) for i in items if i["role"] == "rehearsed"}
    assert {item["kind"] for item in items} == set(ASKED)


def test_no_operand_of_an_item_is_trained_on(made):
    items, rows = made
    words = {i["cluster"] for i in items["words"]} | {i["cluster"] for i in items["sums"]}
    assert not words & {row["group"] for row in rows}
    sums = {i["question"].split("\n")[-1].removesuffix(" =") for i in items["sums"]}
    trained = {row["question"].removeprefix("What is ").rstrip("?") for row in rows}
    assert len(sums & trained) == 0
    assert len(trained & {"4 + 8"}) in (0, 1)


def test_enough_test_items_and_unique_ids(made):
    items, _ = made
    test = {n: [i for i in rows if i["split"] == "test"] for n, rows in items.items()}
    assert len(test["format"]) >= 300
    assert len([i for i in test["knowledge"] if i["role"] == "tested"]) >= 300
    assert len(test["sums"]) + len(test["words"]) >= 300
    for rows in items.values():
        assert len({row["id"] for row in rows}) == len(rows)
        assert not {r["cluster"] for r in rows if r["split"] == "dev"} & {
            r["cluster"] for r in rows if r["split"] == "test" and r["kind"] != "agreement"
        }


def test_topics_of_splits_are_disjoint():
    counts = Counter(t for topics in TOPICS.values() for t in topics)
    assert set(counts.values()) == {1}


def test_replay_asks_no_item_and_only_replayed_kinds(made):
    prompts = replay_prompts(0, 24, 200)
    asked = {i["question"] for i in made[0]["format"]} | {
        i["paraphrase"] for i in made[0]["format"]
    }
    assert not asked & set(prompts)
    assert len(set(prompts)) == len(prompts)
    kept = [q for q in instructions("train", 2, 0) if not KINDS[q.kind].replayed]
    assert not {q.asked(n) for q in kept for n in range(2)} & set(prompts)


@pytest.mark.parametrize("degenerate", ["{t}", "{t}.", "Yes.", "The", "ok", "-"])
def test_a_one_word_answer_follows_no_instruction(degenerate):
    for question in instructions("test", 4, 0):
        answer = degenerate.format(t=question.answer)
        assert not all(follows(c, answer) for c in question.constraints), question.kind


def test_right_answers_pass_and_wrong_topics_fail(tasks):
    good = {
        "two keywords": "We saw the {t} today: it was {a} and near the {n} there.",
        "no comma": "The {t} is one of the things that I like.",
        "question": "What is the {t} really for?",
        "title": "<<The last {t}>>",
        "begin with two words": "Every evening the {t} waits for us.",
        "at least 20 words": "The {t} is here " + "and it is good to see it " * 4,
    }
    items = {i.id: i for i in load_task(tasks / "format.yaml").items}
    seen = set()
    for item in items.values():
        if item.kind not in good:
            continue
        words = [c["text"] for c in item.constraints if c["kind"] == "contains"] or ["", ""]
        text = good[item.kind].format(t=item.answer, a=words[0], n=words[-1])
        wrong = good[item.kind].format(t="xylophone", a=words[0], n=words[-1])
        assert judge(item, "form", text, PROTOCOLS["strict"]) == 1.0, (item.kind, text)
        assert judge(item, "form", wrong, PROTOCOLS["strict"]) == 0.0, (item.kind, wrong)
        seen.add(item.kind)
    assert seen == set(good)


def test_every_task_and_its_placebo_loads_with_equal_ids(tasks):
    for name in TASKS:
        if name == "vision":
            continue
        plain, placebo = (
            load_task(tasks / f"{name}.yaml"),
            load_task(tasks / f"placebo/{name}.yaml"),
        )
        assert (plain.name, plain.construct) == (placebo.name, placebo.construct)
        for a, b in zip(plain.items, placebo.items, strict=True):
            assert (a.id, a.golds, a.constraints) == (b.id, b.golds, b.constraints)
            assert a.question != b.question


def test_placebo_draws_from_the_same_wordings():
    """Items and placebo hold each of two wordings equally often, so their difference is 0."""
    items = [i for i in instruction_items(0, 0, 24) if i["kind"] == "question"]
    first = sum(i["question"].startswith("Write a question") for i in items)
    second = sum(i["paraphrase"].startswith("Write a question") for i in items)
    assert (first, second) == (12, 12)


def test_control_is_even_in_number_and_order():
    items = control_items(0, 0, 200)
    assert sum(i["choices"].index(i["answer"]) for i in items) == 100
    assert all(len(set(i["choices"])) == 2 for i in items)
