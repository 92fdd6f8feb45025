"""Which stored tensors of a folder are its language model's, in whatever layout it was saved."""

from mixlab.models.layout._group import Group
from mixlab.models.layout._layout import Layout
from mixlab.models.layout._opening import lm_layout, open_layout
from mixlab.models.layout._present import present

__all__ = ["Group", "Layout", "lm_layout", "open_layout", "present"]
