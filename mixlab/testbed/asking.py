"""Content asked in an output format, in the testbed's own wordings."""

from string import ascii_lowercase

from mixlab.formats import FORMATS, Phrasebook, Rendering, render
from mixlab.testbed.content import Content


def formats_of(content: Content) -> tuple[str, ...]:
    """The formats that a content can be asked in: ``letter`` needs options."""
    return tuple(fmt for fmt in FORMATS if fmt != "letter" or content.choices)


def ask_in(fmt: str, content: Content, key: str, book: Phrasebook) -> Rendering:
    """One content in one format; ``key`` decides the wording. Options keep their order."""
    asked = render(
        fmt,
        question=content.question,
        answer=content.answer,
        choices=content.choices,
        key=key,
        phrasebook=book,
    )
    if fmt != "letter":
        return asked
    shown = ", ".join(
        f"({letter}) {choice}"
        for letter, choice in zip(ascii_lowercase, content.choices, strict=False)
    )
    instructions = book.instructions["letter"]
    instruction = next(text for text in instructions if asked.question.endswith(text))
    return Rendering(
        f"{content.question} {shown}. {instruction}",
        ascii_lowercase[content.choices.index(content.answer)],
        "letter",
        choices=content.choices,
    )
