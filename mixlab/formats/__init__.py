"""Output formats: ask for one, render into one, recognise one, verify constraints."""

from ._names import FORMATS
from ._phrasebook import ENGLISH, ConstraintWording, Phrasebook
from ._recognise import recognise
from ._render import Rendering, render, renderable

__all__ = [
    "ENGLISH",
    "FORMATS",
    "ConstraintWording",
    "Phrasebook",
    "Rendering",
    "recognise",
    "render",
    "renderable",
]
