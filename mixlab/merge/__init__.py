"""Merging of language-model weights: on tensors, state dicts, live models and checkpoints."""

from mixlab.merge import kernels as kernels
from mixlab.merge._checkpoints import merge_checkpoints, preview_merge
from mixlab.merge._method import (
    Context,
    MergeMethod,
    PerModel,
    Share,
    Tensors,
    get_method,
    merge_method,
    method_names,
)
from mixlab.merge._plan import Input, MergePlan, TensorPlan
from mixlab.merge._verifying import verify_merge
from mixlab.merge.backbone._checkpoints import (
    extract_checkpoint,
    preview_backbone,
    splice_checkpoint,
)
from mixlab.merge.display._cost import MergeCost, plan_cost
from mixlab.merge.display._listing import list_merges
from mixlab.merge.display._progress import MergeDisplay
from mixlab.merge.display._table import as_rows, merge_table
from mixlab.merge.kernels._threshold import model_threshold
from mixlab.merge.live._path import MergePath, TensorReport
from mixlab.merge.live._soup import GreedySoup, greedy_soup
from mixlab.merge.live._state import merge_state_dicts
from mixlab.merge.methods import (
    arcee_fusion,
    breadcrumbs,
    breadcrumbs_ties,
    dare_linear,
    dare_ties,
    della,
    della_linear,
    fisher,
    karcher,
    keep_far_movers,
    linear,
    lines,
    model_stock,
    multislerp,
    nearswap,
    nuslerp,
    passthrough,
    permuted_direction,
    ram,
    ramplus_tl,
    random_direction,
    sce,
    slerp,
    star,
    task_arithmetic,
    ties,
    tsv,
    wise_ft,
)
from mixlab.merge.planning._pair_recipe import pair_recipe
from mixlab.merge.planning._planning import plan_merge
from mixlab.merge.planning._recipe import Recipe, load_recipe
from mixlab.merge.recipes import named_recipes
from mixlab.merge.running._execute import execute
from mixlab.merge.running._report import MergeReport, Progress
from mixlab.merge.running._verify import VerifyError, VerifyReport, verify
from mixlab.merge.schedules._schedule import Schedule

__all__ = [
    "Context",
    "GreedySoup",
    "Input",
    "MergeCost",
    "MergeDisplay",
    "MergeMethod",
    "MergePath",
    "MergePlan",
    "MergeReport",
    "PerModel",
    "Progress",
    "Recipe",
    "Schedule",
    "Share",
    "TensorPlan",
    "TensorReport",
    "Tensors",
    "VerifyError",
    "VerifyReport",
    "arcee_fusion",
    "as_rows",
    "breadcrumbs",
    "breadcrumbs_ties",
    "dare_linear",
    "dare_ties",
    "della",
    "della_linear",
    "execute",
    "extract_checkpoint",
    "fisher",
    "get_method",
    "greedy_soup",
    "karcher",
    "keep_far_movers",
    "linear",
    "lines",
    "list_merges",
    "load_recipe",
    "merge_checkpoints",
    "merge_method",
    "merge_state_dicts",
    "merge_table",
    "method_names",
    "model_stock",
    "model_threshold",
    "multislerp",
    "named_recipes",
    "nearswap",
    "nuslerp",
    "pair_recipe",
    "passthrough",
    "permuted_direction",
    "plan_cost",
    "plan_merge",
    "preview_backbone",
    "preview_merge",
    "ram",
    "ramplus_tl",
    "random_direction",
    "sce",
    "slerp",
    "splice_checkpoint",
    "star",
    "task_arithmetic",
    "ties",
    "tsv",
    "verify",
    "verify_merge",
    "wise_ft",
]
