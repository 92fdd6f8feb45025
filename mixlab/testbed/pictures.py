"""Scenes drawn with PIL: 48 x 48 pixels, a cell of 16 x 16 for each patch of the tower."""

from random import Random

from PIL import Image, ImageDraw

from mixlab.testbed.scenes import COLOURS, Cell, Scene

CELL = 16
SIDE = 3 * CELL

# Glyphs of 5 x 7 pixels, one row of bits a line: drawn here so that no font file decides a build.
_FONT = {
    "0": "01110 10001 10011 10101 11001 10001 01110",
    "1": "00100 01100 00100 00100 00100 00100 01110",
    "2": "01110 10001 00001 00110 01000 10000 11111",
    "3": "11110 00001 00001 01110 00001 00001 11110",
    "4": "00010 00110 01010 10010 11111 00010 00010",
    "5": "11111 10000 11110 00001 00001 10001 01110",
    "6": "01110 10000 10000 11110 10001 10001 01110",
    "7": "11111 00001 00010 00100 01000 01000 01000",
    "8": "01110 10001 10001 01110 10001 10001 01110",
    "9": "01110 10001 10001 01111 00001 00001 01110",
    "a": "01110 10001 10001 11111 10001 10001 10001",
    "b": "11110 10001 10001 11110 10001 10001 11110",
    "c": "01110 10001 10000 10000 10000 10001 01110",
    "d": "11110 10001 10001 10001 10001 10001 11110",
    "e": "11111 10000 10000 11110 10000 10000 11111",
    "f": "11111 10000 10000 11110 10000 10000 10000",
    "g": "01110 10001 10000 10111 10001 10001 01110",
    "h": "10001 10001 10001 11111 10001 10001 10001",
    "i": "01110 00100 00100 00100 00100 00100 01110",
    "j": "00111 00010 00010 00010 00010 10010 01100",
    "k": "10001 10010 10100 11000 10100 10010 10001",
    "l": "10000 10000 10000 10000 10000 10000 11111",
    "m": "10001 11011 10101 10101 10001 10001 10001",
    "n": "10001 11001 10101 10011 10001 10001 10001",
    "o": "01110 10001 10001 10001 10001 10001 01110",
    "p": "11110 10001 10001 11110 10000 10000 10000",
    "r": "11110 10001 10001 11110 10100 10010 10001",
    "s": "01111 10000 10000 01110 00001 00001 11110",
    "t": "11111 00100 00100 00100 00100 00100 00100",
    "u": "10001 10001 10001 10001 10001 10001 01110",
    "v": "10001 10001 10001 10001 10001 01010 00100",
    "w": "10001 10001 10001 10101 10101 11011 10001",
    "x": "10001 10001 01010 00100 01010 10001 10001",
    "y": "10001 10001 01010 00100 00100 00100 00100",
    "z": "11111 00001 00010 00100 01000 10000 11111",
}

GLYPHS = tuple(_FONT)


def draw_scene(scene: Scene, rng: Random) -> Image.Image:
    """An RGB picture of a scene; ``rng`` moves each form by a pixel and tints the paper."""
    paper = rng.randint(232, 255)
    image = Image.new("RGB", (SIDE, SIDE), (paper, paper, paper))
    pen = ImageDraw.Draw(image)
    for place, cell in enumerate(scene.cells):
        if cell is not None:
            x = (place % 3) * CELL + rng.randint(-1, 1)
            y = (place // 3) * CELL + rng.randint(-1, 1)
            _draw(pen, cell, x, y)
    return image


def _draw(pen: ImageDraw.ImageDraw, cell: Cell, x: int, y: int) -> None:
    """One form with its box's corner at (x, y); every form stays 2 pixels off the border."""
    fill = COLOURS[cell.colour]
    if cell.form in _FONT:
        for row, bits in enumerate(_FONT[cell.form].split()):
            for column, bit in enumerate(bits):
                if bit == "1":
                    left, top = x + 3 + 2 * column, y + 1 + 2 * row
                    pen.rectangle((left, top, left + 1, top + 1), fill=fill)
        return
    low, mid, high = 2, 7, 13
    if cell.form == "circle":
        pen.ellipse((x + low, y + low, x + high, y + high), fill=fill)
    elif cell.form == "square":
        pen.rectangle((x + low, y + low, x + high, y + high), fill=fill)
    elif cell.form == "bar":
        pen.rectangle((x + low, y + 6, x + high, y + 9), fill=fill)
    elif cell.form == "cross":
        pen.rectangle((x + 6, y + low, x + 9, y + high), fill=fill)
        pen.rectangle((x + low, y + 6, x + high, y + 9), fill=fill)
    else:
        corners = {
            "triangle": ((mid, low), (high, high), (low, high)),
            "diamond": ((mid, low), (high, mid), (mid, high), (low, mid)),
            "star": (
                (low, low),
                (mid, 5),
                (high, low),
                (10, mid),
                (high, high),
                (mid, 10),
                (low, high),
                (5, mid),
            ),
        }[cell.form]
        pen.polygon([(x + a, y + b) for a, b in corners], fill=fill)
