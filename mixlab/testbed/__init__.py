"""A small world with known truth, and the reference and VLM that are taught from it."""

from mixlab.testbed.build import build
from mixlab.testbed.folder import TestbedFolder
from mixlab.testbed.naive import naive
from mixlab.testbed.pairs import PAIRS

__all__ = ["PAIRS", "TestbedFolder", "build", "naive"]
