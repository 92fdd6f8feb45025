"""One magnitude to cut all of a model's task vectors at, as the code of TIES does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from mixlab.merge.kernels._parts import Descent
from mixlab.merge.kernels._select import Bits, find_cuts
from mixlab.spec import MixlabError


def model_threshold(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], density: float) -> float:
    """The magnitude that the share `density` of a whole task vector's elements reaches.

    Exact, in three passes and without sorting or copying: the max(1, int(density * n))-th largest
    |x - base| over all n elements of all pairs (Yadav et al. 2023, arXiv:2306.01708, whose code
    trims each model once over all its parameters). Give it to `ties` as `threshold`; equal
    magnitudes are all kept.

    Args:
        pairs: (tensor, base), each of one shape, on the CPU, half precision or float32.
        density: above 0, at most 1.

    Raises:
        MixlabError: there are no elements, density is out of range, or shapes differ.
    """
    numel = sum(tensor.numel() for tensor, _ in pairs)
    if not 0 < density <= 1 or not numel:
        raise MixlabError(
            f"density {density} of {numel} elements has no threshold; expected a density above 0 "
            "and at most 1, and at least one element"
        )
    for tensor, base in pairs:
        if tensor.shape != base.shape:
            raise MixlabError(f"shapes differ: {list(tensor.shape)} and {list(base.shape)}")

    def magnitudes() -> Iterator[Bits]:
        for tensor, base in pairs:
            yield from Descent(
                tensor.detach().contiguous(), base.detach().contiguous()
            ).magnitudes()

    (cut,) = find_cuts(magnitudes, numel, [max(1, int(density * numel))])
    return float(np.int32(max(cut.bits, 0)).view(np.float32))
