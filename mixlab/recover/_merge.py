"""The merge path: a backbone drawn back to its reference, in memory, scored at every alpha."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mixlab.recover._operator import Kind, Score
from mixlab.spec import MixlabError

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from mixlab.models import LoadedModel


class MergeOperator:
    """theta = (1 - alpha) * reference + alpha * tuned over the backbone; alpha 1 is untouched.

    A repair operator: it imports the reference's weights, and alpha 0 *is* the reference's
    backbone. Vision tower, projector and vocabulary rows that the reference lacks stay the
    model's. WiSE-FT (arXiv:2109.01903) is this line.

    Args:
        reference: tensors of the reference, named as in the stand-alone LM
            (`LoadedModel.backbone_state`).
        alphas: the grid, each in [0, 1].

    Raises:
        MixlabError: no alpha, one outside [0, 1], or one given twice.
    """

    name = "merge"
    kind: Kind = "repair"
    imports = "the reference's weights"

    def __init__(self, reference: Mapping[str, torch.Tensor], alphas: Sequence[float]) -> None:
        self.reference = reference
        self.alphas = tuple(float(alpha) for alpha in alphas)
        wrong = [alpha for alpha in self.alphas if not 0 <= alpha <= 1]
        if not self.alphas or wrong or len(set(self.alphas)) < len(self.alphas):
            raise MixlabError(
                f"merge alphas are {list(self.alphas)}; expected distinct numbers from 0 (the "
                "reference) to 1 (the model untouched)"
            )

    def declared(self) -> dict[str, Any]:
        """Name, kind, imports and the grid as plain data."""
        return {
            "name": self.name,
            "kind": self.kind,
            "imports": self.imports,
            "alphas": list(self.alphas),
        }

    def apply(self, loaded: LoadedModel, score: Score) -> pd.DataFrame:
        """Rows of `score` at every alpha, with `operator` "merge" and `alpha`.

        No checkpoint is written. The model is restored at the end, also after an error, and its
        digest compared with the one it came with. Alpha 1 is scored first and once: with a
        response cache it costs nothing after the plain score, and neither does the text at alpha
        0 after the reference's.

        Raises:
            MixlabError: the reference does not fit (all differences listed), or the model could
                not be restored.
        """
        import pandas as pd

        from mixlab.merge import MergePath

        before = loaded.weights_digest()
        frames = []
        with MergePath(loaded.backbone_state(), self.reference) as path:
            # From the untouched end, so that an interrupted path has its anchor.
            for alpha in sorted(self.alphas, reverse=True):
                path.set_alpha(alpha)
                frames.append(score(loaded).assign(operator=self.name, alpha=alpha))
        after = loaded.weights_digest()
        if after != before:
            raise MixlabError(
                f"the merge path left weights {after} where it found {before}; load the model anew"
            )
        return pd.concat(frames, ignore_index=True)


def merge_operator(
    loaded: LoadedModel,
    reference_state: Mapping[str, torch.Tensor],
    alphas: Sequence[float],
    score: Score,
) -> pd.DataFrame:
    """`MergeOperator(reference_state, alphas).apply(loaded, score)`."""
    return MergeOperator(reference_state, alphas).apply(loaded, score)


def without_operator(rows: pd.DataFrame) -> pd.DataFrame:
    """Plain scores with `operator` "none" and `alpha` NaN, to stand beside an operator's rows."""
    return rows.assign(operator="none", alpha=math.nan)
