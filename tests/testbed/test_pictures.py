from random import Random

import numpy as np
import pytest

from mixlab.testbed.pictures import CELL, SIDE, draw_scene
from mixlab.testbed.scenes import COLOURS, KINDS, MAKERS, PLACES, PLURALS, ask, content
from mixlab.testbed.tower import FORMS


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_show_what_the_scene_says(kind: str) -> None:
    rng = Random(kind)
    for _ in range(30):
        scene = MAKERS[kind](rng)
        pixels = np.asarray(draw_scene(scene, rng)).astype(int)
        assert pixels.shape == (SIDE, SIDE, 3)
        for place, cell in enumerate(scene.cells):
            row, column = divmod(place, 3)
            block = pixels[CELL * row : CELL * (row + 1), CELL * column : CELL * (column + 1)]
            inked = block[(block.max(-1) - block.min(-1) > 0) | (block.max(-1) < 200)]
            if cell is None:
                assert len(inked) == 0
            else:
                assert cell.form in FORMS
                assert set(map(tuple, inked)) == {COLOURS[cell.colour]}


def test_forms_differ_in_pixels() -> None:
    from mixlab.testbed.scenes import Cell, Scene

    def ink(form: str) -> bytes:
        picture = draw_scene(Scene((Cell(form, "black"), *[None] * 8)), Random(0))
        return picture.tobytes()

    assert len({ink(form) for form in FORMS[1:]}) == len(FORMS) - 1


@pytest.mark.parametrize("kind", KINDS)
def test_questions_have_one_answer_in_the_scene(kind: str) -> None:
    rng = Random(kind)
    answers = set()
    for number in range(200):
        scene = MAKERS[kind](rng)
        asked = content(scene, kind, rng, "test", number, 0)
        answers.add(asked.answer)
        assert asked.answer in asked.choices
        assert len(set(asked.choices)) == 4
        shown = {PLACES[i]: c for i, c in enumerate(scene.cells) if c is not None}
        forms = [c.form for c in shown.values()]
        if kind == "position":
            assert shown[asked.answer].form in asked.question
        elif kind == "count":
            named = next(s for s, p in PLURALS.items() if p in asked.question)
            assert forms.count(named) == int(asked.answer)
        elif kind == "colour":
            named = next(c for c in shown.values() if c.form in asked.question)
            assert named.colour == asked.answer
            assert forms.count(named.form) == 1
    assert len(answers) >= 4


def test_ask_is_a_function_of_the_generator() -> None:
    scene = MAKERS["shape"](Random(1))
    assert ask(scene, "shape", Random(2)) == ask(scene, "shape", Random(2))
