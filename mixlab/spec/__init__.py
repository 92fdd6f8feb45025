"""YAML with positions, nearest-key errors, search spaces and a registry of settings."""

from mixlab import MixlabError
from mixlab.spec.errors import SpecError, nearest
from mixlab.spec.located import Located, load_documents, load_yaml, locate
from mixlab.spec.overrides import apply_overrides, set_dotted
from mixlab.spec.parsing import parse
from mixlab.spec.ranges import Fraction, Shares, check_shares
from mixlab.spec.registry import register, registered, registered_names
from mixlab.spec.settings import Settings
from mixlab.spec.simplex import shares_to_unit, unit_to_shares
from mixlab.spec.spaces import (
    Choice,
    Coordinate,
    IntUniform,
    LogUniform,
    Simplex,
    Space,
    Uniform,
    parse_space,
)

__all__ = [
    "Choice",
    "Coordinate",
    "Fraction",
    "IntUniform",
    "Located",
    "LogUniform",
    "MixlabError",
    "Settings",
    "Shares",
    "Simplex",
    "Space",
    "SpecError",
    "Uniform",
    "apply_overrides",
    "check_shares",
    "load_documents",
    "load_yaml",
    "locate",
    "nearest",
    "parse",
    "parse_space",
    "register",
    "registered",
    "registered_names",
    "set_dotted",
    "shares_to_unit",
    "unit_to_shares",
]
