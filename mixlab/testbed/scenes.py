"""Pictures as data: three by three cells that hold shapes or glyphs, and questions about them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from mixlab.testbed.content import Content, options, words

SHAPES: tuple[str, ...] = ("circle", "square", "triangle", "cross", "diamond", "star", "bar")
PLURALS = {s: f"{s}es" if s.endswith("ss") else f"{s}s" for s in SHAPES}
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (30, 150, 50),
    "blue": (40, 70, 220),
    "yellow": (235, 205, 30),
    "purple": (140, 40, 170),
    "orange": (245, 130, 20),
    "black": (20, 20, 20),
    "cyan": (30, 190, 200),
}
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "center", "right")
PLACES = tuple(f"{r} {c}" for r in ROWS for c in COLUMNS)
READABLE = words(
    "sun map hat pen cup box bus key jar net toy car bed fan log rug bag pin tub van "
    "web zip oak fog"
)
NUMBERS = tuple(str(n) for n in range(10, 100))
KINDS = ("shape", "colour", "position", "count", "digits", "word")

WORDINGS: dict[str, tuple[str, ...]] = {
    "shape": ("what shape is {x}?", "which shape is {x}?", "name the shape that is {x}."),
    "colour": (
        "what colour is the {x}?",
        "which colour has the {x}?",
        "name the colour of the {x}.",
    ),
    "position": ("where is the {x}?", "in what place is the {x}?", "name the place of the {x}."),
    "count": ("how many {x} are there?", "count the {x}.", "what is the number of {x}?"),
    "digits": ("what number is shown?", "read the number.", "which number can you see?"),
    "word": ("what word is shown?", "read the word.", "which word can you see?"),
}


@dataclass(frozen=True)
class Cell:
    """What one cell shows: ``form`` is a shape's name or one glyph."""

    form: str
    colour: str


@dataclass(frozen=True)
class Scene:
    """Nine cells in reading order; None is an empty cell."""

    cells: tuple[Cell | None, ...]

    def text(self) -> str:
        """The scene in words: glyphs of a row are read together."""
        parts = []
        for row, name in enumerate(ROWS):
            line = self.cells[3 * row : 3 * row + 3]
            if any(c is not None and len(c.form) == 1 for c in line):
                text = "".join(c.form for c in line if c is not None)
                what = "number" if text.isdigit() else "word"
                first = line[0]
                parts.append(f"{name}: {first.colour if first else ''} {what} {text}.")
                continue
            for column, cell in zip(COLUMNS, line, strict=True):
                if cell is not None:
                    parts.append(f"{name} {column}: {cell.colour} {cell.form}.")
        return " ".join(parts)


def _objects(rng: Random, forms: list[str]) -> Scene:
    """Shapes in distinct cells, each in a colour of its own."""
    cells: list[Cell | None] = [None] * 9
    colours = rng.sample(sorted(COLOURS), len(forms))
    for place, form, colour in zip(rng.sample(range(9), len(forms)), forms, colours, strict=True):
        cells[place] = Cell(form, colour)
    return Scene(tuple(cells))


def _distinct(rng: Random) -> Scene:
    return _objects(rng, rng.sample(SHAPES, rng.choice((1, 1, 1, 1, 2))))


def _countable(rng: Random) -> Scene:
    counted, other = rng.sample(SHAPES, 2)
    return _objects(rng, [counted] * rng.randint(1, 4) + [other] * rng.choice((0, 0, 0, 0, 1)))


def _line(rng: Random, text: str) -> Scene:
    cells: list[Cell | None] = [None] * 9
    row, colour = rng.randrange(3), rng.choice(sorted(COLOURS))
    for i, glyph in enumerate(text):
        cells[3 * row + i] = Cell(glyph, colour)
    return Scene(tuple(cells))


MAKERS: dict[str, Callable[[Random], Scene]] = {
    "shape": _distinct,
    "colour": _distinct,
    "position": _distinct,
    "count": _countable,
    "digits": lambda rng: _line(rng, rng.choice(NUMBERS)),
    "word": lambda rng: _line(rng, rng.choice(READABLE)),
}


def ask(scene: Scene, kind: str, rng: Random) -> tuple[str, str, tuple[str, ...]]:
    """A question of one kind about a scene: the text, its answer and four options."""
    shown = [(place, cell) for place, cell in enumerate(scene.cells) if cell is not None]
    place, cell = rng.choice(shown)
    subject, pool = cell.form, SHAPES
    if kind == "shape":
        answer, subject = cell.form, rng.choice((cell.colour, f"at the {PLACES[place]}"))
    elif kind == "colour":
        answer, pool = cell.colour, tuple(COLOURS)
    elif kind == "position":
        answer, pool = PLACES[place], PLACES
    elif kind == "count":
        # The form that comes first in the list was the counted one only by the maker's choice;
        # asking for the commonest keeps the answers 1 to 4 evenly spread.
        forms = [c.form for _, c in shown]
        subject = max(sorted(set(forms)), key=forms.count)
        answer, pool = str(forms.count(subject)), ("1", "2", "3", "4", "5")
        subject = PLURALS[subject]
    else:
        answer = "".join(c.form for _, c in shown)
        pool = NUMBERS if kind == "digits" else READABLE
    question = rng.choice(WORDINGS[kind]).format(x=subject)
    return question, answer, options(answer, pool)


def draw(kind: str, rng: Random, number: int, split: str) -> tuple[Scene, Content]:
    """A fresh scene with one question of a kind."""
    scene = MAKERS[kind](rng)
    return scene, content(scene, kind, rng, split, number, 0)


def content(scene: Scene, kind: str, rng: Random, split: str, number: int, which: int) -> Content:
    """A question about scene ``number`` of ``split``; its picture's path goes with it."""
    question, answer, choices = ask(scene, kind, rng)
    name = f"{split}-{number:05d}"
    return Content(
        id=f"vision-{name}-{which}",
        question=question,
        answer=answer,
        choices=choices,
        kind=kind,
        group=name,
        image=f"images/{name}.png",
        scene=scene.text(),
    )
