"""The testbed's phrasebooks: lower case, with wordings for arms (train), dev and test."""

from mixlab.formats import ConstraintWording, Phrasebook

SPLITS = ("train", "dev", "test")

# The reference is taught all of these; arms' rows use the train wordings only.
_INSTRUCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "short": {
        "train": ("be brief.", "give only the answer.", "answer in a word."),
        "dev": ("a brief answer, please.",),
        "test": ("only a word, please.", "keep the answer brief."),
    },
    "letter": {
        "train": ("answer with the letter.", "which letter is right?", "give only the letter."),
        "dev": ("the letter, please.",),
        "test": ("only the right letter, please.", "pick the letter."),
    },
    "sentence": {
        "train": ("answer in a sentence.", "use a full sentence.", "give a full sentence."),
        "dev": ("a full sentence, please.",),
        "test": ("put the answer in a sentence.", "only a sentence, please."),
    },
    "long": {
        "train": ("answer in two sentences.", "use two sentences.", "write more."),
        "dev": ("two sentences, please.",),
        "test": ("write two sentences.", "put the answer in two sentences."),
    },
    "json": {
        "train": ("answer in json.", "use json.", "give the answer as json."),
        "dev": ("json, please.",),
        "test": ("write json.", "put the answer in json."),
    },
    "steps": {
        "train": ("answer in steps.", "use steps.", "go step by step."),
        "dev": ("steps, please.",),
        "test": ("write steps.", "put the answer in steps."),
    },
}

_ANSWERS = {
    "short": ("{answer}",),
    "sentence": ("the answer is {answer}.",),
    "long": ("the answer is {answer}. there is no more to say.",),
    "steps": ("step 1: read the question. step 2: the answer is {answer}.",),
}

_CONSTRAINTS: tuple[tuple[str, str, dict[str, str], dict[str, tuple[str, ...]]], ...] = (
    (
        "begin_ok",
        "ok {answer}",
        {"kind": "begins_with", "text": "ok"},
        {
            "train": ("begin with ok.", "first say ok."),
            "dev": ("ok is the first word.",),
            "test": ("put ok first.", "begin the answer with ok."),
        },
    ),
    (
        "end_done",
        "{answer} done",
        {"kind": "ends_with", "text": "done"},
        {
            "train": ("end with done.", "at the end say done."),
            "dev": ("done is the last word.",),
            "test": ("put done last.", "end the answer with done."),
        },
    ),
    (
        "brackets",
        "[{answer}]",
        {"kind": "bracketed"},
        {
            "train": ("use brackets.", "answer in brackets."),
            "dev": ("brackets, please.",),
            "test": ("put the answer in brackets.", "write brackets."),
        },
    ),
)


def phrasebook(*splits: str) -> Phrasebook:
    """The phrasebook with the wordings of the given splits."""
    return Phrasebook(
        name="testbed " + "+".join(splits),
        instructions={
            fmt: tuple(text for split in splits for text in wordings[split])
            for fmt, wordings in _INSTRUCTIONS.items()
        },
        answers=_ANSWERS,
        constraints=tuple(
            ConstraintWording(
                kind, tuple(text for split in splits for text in wordings[split]), answer, check
            )
            for kind, answer, check, wordings in _CONSTRAINTS
        ),
        letter_layout="{question} {options}. {instruction}",
    )


def all_texts() -> list[str]:
    """Every wording, for the vocabulary."""
    book = phrasebook(*SPLITS)
    texts = [t for wordings in book.instructions.values() for t in wordings]
    texts += [t for patterns in book.answers.values() for t in patterns]
    for entry in book.constraints:
        texts += [*entry.instructions, entry.answer]
    return texts
