import pytest

from mixlab.formats import CONSTRAINT_KINDS, follows, follows_ifeval
from mixlab.spec import MixlabError

# (instruction, arguments, response, expected): each id both ways, with the traps that
# implementations differ on.
CASES = [
    ("keywords:existence", {"keywords": ["Zelda", "link"]}, "zelda met Links", True),
    ("keywords:existence", {"keywords": ["zelda", "c++"]}, "zelda and c", False),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "at least"},
     "War, warrior", True),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "less than"},
     "war and war", False),
    ("keywords:forbidden_words", {"forbidden_words": ["sad"]}, "a saddle", True),
    ("keywords:forbidden_words", {"forbidden_words": ["sad"]}, "SAD!", False),
    ("keywords:letter_frequency", {"letter": "M", "let_frequency": 2, "let_relation": "at least"},
     "Mum", True),
    ("keywords:letter_frequency", {"letter": "!", "let_frequency": 1, "let_relation": "less than"},
     "no!", False),
    ("language:response_language", {"language": "de"}, "Das ist nicht der Weg und ich gehe.", True),
    ("language:response_language", {"language": "ta"}, "This is the way to the house.", False),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"},
     "One. Two!", True),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"},
     "Mr. Lee paid 3.50.", True),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"},
     "only one", False),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "a-b c", True),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "a b c", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb\n***\n", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n\nb", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a *** *** b", False),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "send"}, 'a\n\n"Send, it."', True),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "send"}, "sender\n\nb", False),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "send"}, "send", False),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] [b] [c]", True),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a[b]", False),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Hi\np. s. bye", True),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P.S. bye", False),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b\n**bold**", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n* b\n* c", False),
    ("detectable_format:constrained_response", {}, "I say: My answer is maybe.", True),
    ("detectable_format:constrained_response", {}, "my answer is maybe", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* **b**", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "** **", False),
    ("detectable_format:multiple_sections", {"section_spliter": "Day", "num_sections": 2},
     "Day 1 a\nDay 2 b", True),
    ("detectable_format:multiple_sections", {"section_spliter": "Day", "num_sections": 2},
     "Day 1 a\nDay two b", False),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', True),
    ("detectable_format:json_format", {}, "Here: {}", False),
    ("detectable_format:title", {}, "<<A song>>\nla", True),
    ("detectable_format:title", {}, "<< >>", False),
    ("combination:two_responses", {}, "a\n******\nb", True),
    ("combination:two_responses", {}, "a ****** a", False),
    ("combination:two_responses", {}, "a ****** b ****** c", False),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Write."}, "write. Yes", True),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Write."}, "Yes. Write.", False),
    ("startend:end_checker", {"end_phrase": "The end."}, 'so "it is the END."', True),
    ("startend:end_checker", {"end_phrase": "The end."}, "The end. Or not.", False),
    ("startend:quotation", {}, '"a"', True),
    ("startend:quotation", {}, '"', False),
    ("change_case:english_capital", {}, "THIS IS THE WAY.", True),
    ("change_case:english_capital", {}, "DAS IST NICHT DER WEG UND ICH GEHE.", False),
    ("change_case:english_lowercase", {}, "this is the way.", True),
    ("change_case:english_lowercase", {}, "This is the way.", False),
    ("change_case:capital_word_frequency",
     {"capital_frequency": 2, "capital_relation": "at least"}, "NASA and WELL-KNOWN", True),
    ("change_case:capital_word_frequency",
     {"capital_frequency": 1, "capital_relation": "less than"}, "I said so", False),
    ("punctuation:no_comma", {}, "a; b", True),
    ("punctuation:no_comma", {}, "a, b", False),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "kwargs", "response", "expected"), CASES)
def test_cases(instruction: str, kwargs: dict, response: str, expected: bool) -> None:
    assert follows_ifeval(instruction, kwargs, "", response) is expected
    assert follows({"kind": instruction, **kwargs}, response) is expected


def test_every_instruction_has_a_case_both_ways() -> None:
    ids = {kind for kind in CONSTRAINT_KINDS if ":" in kind}
    assert len(ids) == 25
    for expected in (True, False):
        assert {case[0] for case in CASES if case[3] is expected} == ids


def test_empty_responses_follow_nothing() -> None:
    for instruction, kwargs, _, _ in CASES:
        assert not follows_ifeval(instruction, kwargs, "", "")
        assert not follows_ifeval(instruction, kwargs, "", " \n", loose=True)


def test_loose_drops_the_first_or_last_line_and_asterisks() -> None:
    wordy = 'Sure, here:\n"quoted"'
    assert not follows_ifeval("startend:quotation", {}, "", wordy)
    assert follows_ifeval("startend:quotation", {}, "", wordy, loose=True)
    assert follows_ifeval("punctuation:no_comma", {}, "", "Sure, yes:\nred", loose=True)
    assert not follows_ifeval("punctuation:no_comma", {}, "", "a\nb, c\nd", loose=True)


def test_exported_rows_with_none_arguments_and_the_prompt_as_default() -> None:
    assert follows_ifeval("punctuation:no_comma", {"num_words": None}, "", "fine")
    assert follows_ifeval("combination:repeat_prompt", {}, "Say hi", "say hi. hi")


def test_bad_calls_are_named() -> None:
    with pytest.raises(MixlabError, match="unknown IFEval instruction 'a:b'"):
        follows_ifeval("a:b", {}, "", "x")
    with pytest.raises(MixlabError, match="doesn't take arguments"):
        follows_ifeval("punctuation:no_comma", {"n": 1}, "", "x")
