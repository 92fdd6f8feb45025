import pytest

from mixlab.formats import CONSTRAINT_KINDS, ENGLISH, follows, render
from mixlab.spec import MixlabError

YES = [
    ({"kind": "begins_with", "text": "ok"}, "OK, tiger"),
    ({"kind": "ends_with", "text": "done"}, "tiger . Done."),
    ({"kind": "contains", "text": "red square"}, "It is a Red  square."),
    ({"kind": "excludes", "text": "red"}, "It is bored."),
    ({"kind": "repeats", "text": "tiger", "times": 2}, "tiger, Tiger!"),
    ({"kind": "repeats", "text": "ha ha", "times": 1}, "ha ha ha"),
    ({"kind": "quoted"}, ' "tiger" '),
    ({"kind": "bracketed"}, "[tiger]"),
    ({"kind": "parenthesised"}, "(tiger)"),
    ({"kind": "lowercase"}, "a tiger, 3"),
    ({"kind": "uppercase"}, "TIGER 3"),
    ({"kind": "no_comma"}, "red; green"),
    ({"kind": "one_line"}, "tiger\n"),
    ({"kind": "words", "count": 2}, "two words"),
    ({"kind": "words", "count": 3, "relation": "less than"}, "two words"),
    ({"kind": "sentences", "count": 2}, "Dr. Lee came. She left."),
    ({"kind": "bullets", "count": 2}, "- a\n* b"),
    ({"kind": "numbered", "count": 2}, "1. a\n2) b"),
    ({"kind": "ends_with_mark", "mark": "!"}, "tiger! "),
    ({"kind": "json_keys", "keys": ["answer"]}, '```json\n{"answer": 1, "why": 2}\n```'),
    ({"kind": "format", "format": "letter"}, "(b)"),
]
NO = [
    ({"kind": "begins_with", "text": "ok"}, "okay tiger"),
    ({"kind": "begins_with", "text": "ok"}, "tiger ok"),
    ({"kind": "ends_with", "text": "done"}, "tiger undone"),
    ({"kind": "contains", "text": "red square"}, "a red blue square"),
    ({"kind": "contains", "text": "3"}, "13"),
    ({"kind": "excludes", "text": "red"}, "It is RED."),
    ({"kind": "repeats", "text": "tiger", "times": 2}, "tiger"),
    ({"kind": "repeats", "text": "tiger", "times": 2}, "tiger tiger tiger"),
    ({"kind": "repeats", "text": "tiger", "times": 2}, "tiger tigers"),
    ({"kind": "quoted"}, '"'),
    ({"kind": "quoted"}, '""'),
    ({"kind": "quoted"}, '"tiger" it is'),
    ({"kind": "bracketed"}, "[ ]"),
    ({"kind": "lowercase"}, "a Tiger"),
    ({"kind": "lowercase"}, "42"),  # no cased letter: nothing was obeyed
    ({"kind": "uppercase"}, "TIGERs"),
    ({"kind": "no_comma"}, "1,000"),
    ({"kind": "one_line"}, "a\nb"),
    ({"kind": "words", "count": 2}, "one"),
    ({"kind": "sentences", "count": 2}, "The value is 3.5 now."),
    ({"kind": "bullets", "count": 2}, "- a\n- b\n- c"),
    ({"kind": "bullets", "count": 1}, "a - b"),
    ({"kind": "numbered", "count": 2}, "1. a\n1. b"),
    ({"kind": "json_keys", "keys": ["answer"]}, '["answer"]'),
    ({"kind": "json_keys", "keys": ["answer"]}, '{"answer": 1} and more'),
    ({"kind": "format", "format": "json"}, "tiger"),
]


@pytest.mark.parametrize(("constraint", "response"), YES)
def test_obeyed(constraint: dict, response: str) -> None:
    assert follows(constraint, response)


@pytest.mark.parametrize(("constraint", "response"), NO)
def test_broken(constraint: dict, response: str) -> None:
    assert not follows(constraint, response)


def test_every_own_kind_has_a_case_both_ways() -> None:
    own = {kind for kind in CONSTRAINT_KINDS if ":" not in kind}
    assert {case[0]["kind"] for case in YES} == own
    assert {case[0]["kind"] for case in NO} >= own - {"parenthesised", "ends_with_mark"}


def test_an_empty_answer_follows_nothing() -> None:
    for constraint, _ in YES:
        assert not follows(constraint, "  \n ")


def test_loose_forgives_a_preamble_and_asterisks() -> None:
    constraint = {"kind": "quoted"}
    wordy = 'Sure, here it is:\n"tiger"'
    assert not follows(constraint, wordy)
    assert follows(constraint, wordy, loose=True)
    assert follows(constraint, '**"tiger"**', loose=True)
    assert not follows(constraint, "tiger", loose=True)


def test_each_rendered_constraint_holds_of_its_answer_and_not_of_the_bare_one() -> None:
    for wording in ENGLISH.constraints:
        made = render(
            "constrained", question="Q?", answer="tiger", key="1", constraint=wording.kind
        )
        assert follows(made.constraints[0], made.answer)
        assert not follows(made.constraints[0], "tiger")


def test_bad_constraints_are_named() -> None:
    with pytest.raises(MixlabError, match="unknown constraint kind 'rhymes'"):
        follows({"kind": "rhymes"}, "a")
    with pytest.raises(MixlabError, match="'words' doesn't take"):
        follows({"kind": "words", "number": 3}, "a")
    with pytest.raises(MixlabError, match="unknown relation 'over'"):
        follows({"kind": "words", "count": 3, "relation": "over"}, "a")
    with pytest.raises(MixlabError, match="unknown output format 'yaml'"):
        follows({"kind": "format", "format": "yaml"}, "a")
