"""Output formats: ask for one, render into one, recognise one, verify constraints."""

from ._constraints import CONSTRAINT_KINDS, follows
from ._ifeval import follows_ifeval
from ._language import detect_language
from ._names import FORMATS
from ._phrasebook import ENGLISH, ConstraintWording, Phrasebook
from ._recognise import recognise
from ._render import Rendering, render, renderable

__all__ = [
    "CONSTRAINT_KINDS",
    "ENGLISH",
    "FORMATS",
    "ConstraintWording",
    "Phrasebook",
    "Rendering",
    "detect_language",
    "follows",
    "follows_ifeval",
    "recognise",
    "render",
    "renderable",
]
