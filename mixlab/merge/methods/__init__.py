"""The formulas: one definition each, on tensors."""

from mixlab.merge.methods._arcee_fusion import arcee_fusion
from mixlab.merge.methods._breadcrumbs import breadcrumbs, breadcrumbs_ties
from mixlab.merge.methods._dare import dare_linear, dare_ties
from mixlab.merge.methods._della import della, della_linear
from mixlab.merge.methods._far_movers import keep_far_movers
from mixlab.merge.methods._fisher import fisher
from mixlab.merge.methods._karcher import karcher
from mixlab.merge.methods._linear import linear, wise_ft
from mixlab.merge.methods._lines import lines
from mixlab.merge.methods._model_stock import model_stock
from mixlab.merge.methods._multislerp import multislerp
from mixlab.merge.methods._nearswap import nearswap
from mixlab.merge.methods._nuslerp import nuslerp
from mixlab.merge.methods._passthrough import passthrough
from mixlab.merge.methods._ram import ram, ramplus_tl
from mixlab.merge.methods._random_direction import permuted_direction, random_direction
from mixlab.merge.methods._sce import sce
from mixlab.merge.methods._slerp import slerp
from mixlab.merge.methods._star import star
from mixlab.merge.methods._task import task_arithmetic
from mixlab.merge.methods._ties import ties
from mixlab.merge.methods._tsv import tsv

__all__ = [
    "arcee_fusion",
    "breadcrumbs",
    "breadcrumbs_ties",
    "dare_linear",
    "dare_ties",
    "della",
    "della_linear",
    "fisher",
    "karcher",
    "keep_far_movers",
    "linear",
    "lines",
    "model_stock",
    "multislerp",
    "nearswap",
    "nuslerp",
    "passthrough",
    "permuted_direction",
    "ram",
    "ramplus_tl",
    "random_direction",
    "sce",
    "slerp",
    "star",
    "task_arithmetic",
    "ties",
    "tsv",
    "wise_ft",
]
