"""How far the weights of a VLM's backbone stand from those of its references, in one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from mixlab.checkpoint import is_vocabulary, read_vocabulary
from mixlab.probe._directions import measure_directions
from mixlab.probe._low_rank import LowRank, measure_low_rank
from mixlab.probe._opening import Opened, Tensor, open_models
from mixlab.probe._permuted import Neurons, match_neurons
from mixlab.probe._reading import read_matrix
from mixlab.probe._rows import Tokens, compare_tokens, sum_table
from mixlab.probe._streaming import Sums, sum_tensor
from mixlab.probe._thresholds import Thresholds

if TYPE_CHECKING:
    import pandas as pd

_DIRECTIONS = 16


@dataclass(frozen=True)
class Comparison:
    """The weights of a VLM's backbone beside those of its references.

    Args:
        models: what was compared.
        tensors: sums of each tensor, in the order of `models.tensors`.
        gains: for each reference, correlation of the blocks' norm weights, each centred.
        low_rank: for each reference, tensor -> what a low rank explains of its change.
        kept: for each reference, rate kept along the strongest directions over that of the rest,
            the greater of both ways; NaN where not measured.
        neurons: for each reference, the neurons' counterparts; None where not measured.
        tokens: for each reference, how the vocabularies agree; None without tokenizers.
    """

    models: Opened
    tensors: tuple[Sums, ...]
    gains: tuple[float, ...]
    low_rank: tuple[dict[str, LowRank], ...]
    kept: tuple[float, ...]
    neurons: tuple[Neurons | None, ...]
    tokens: tuple[Tokens | None, ...]

    def sums(self, choose: Callable[[Tensor], bool]) -> Sums:
        """Sums over the tensors chosen."""
        total = Sums(len(self.models.folders) - 1)
        for tensor, sums in zip(self.models.tensors, self.tensors, strict=True):
            if choose(tensor):
                total = total + sums
        return total

    @property
    def matrices(self) -> Sums:
        """Sums over the matrices of the blocks."""
        return self.sums(lambda tensor: tensor.matrix)

    def table(self) -> pd.DataFrame:
        """A row for each reference and tensor, block, module and for all; see `drift_table`."""
        from mixlab.probe._tables import drift_table

        return drift_table(self)

    def triangles(self) -> pd.DataFrame:
        """A row for each corner of VLM and two references; see `triangle_table`."""
        from mixlab.probe._tables import triangle_table

        return triangle_table(self)


def compare_weights(
    vlm: str | Path,
    references: Sequence[str | Path],
    *,
    spectra: int = 32,
    thresholds: Thresholds | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Comparison:
    """Compare the weights of a VLM's backbone with those of references, streaming.

    One pass reads every tensor of all models in parts of a million elements and adds up in
    float64. Then, for related models alone, a change is read again, one matrix at a time, for its
    rank. Memory does not grow with the models, only with their largest matrix.

    Args:
        spectra: at most so many matrices are looked at for low rank, spread over all of them.
        thresholds: they decide what is worth looking at again.
        progress: called with (tensors done, of how many, name).

    Raises:
        MixlabError: see `open_models`; a value is NaN or infinite.
    """
    limits = thresholds or Thresholds()
    models = open_models(vlm, references)
    try:
        vocabularies = [read_vocabulary(folder) for folder in models.folders]
        tokens = tuple(compare_tokens(vocabularies[0], its) for its in vocabularies[1:])
        found = []
        for done, tensor in enumerate(models.tensors):
            if progress is not None:
                progress(done, len(models.tensors), tensor.name)
            found.append(
                _table(models, tensor, tokens)
                if is_vocabulary(tensor.name)
                else sum_tensor(models.sources, tensor)
            )
        first = Comparison(models, tuple(found), (), (), (), (), tokens)
        return _looked_again(first, spectra, limits)
    finally:
        models.close()


def _looked_again(first: Comparison, spectra: int, limits: Thresholds) -> Comparison:
    """What sums cannot tell, read where they make it worth the time."""
    models, total = first.models, first.matrices
    low_rank: list[dict[str, LowRank]] = []
    kept, neurons, gains = [], [], []
    for at in range(len(models.folders) - 1):
        cosine = _cosine(total, at)
        changed = total.gram[at, at] > limits.changed * total.squares[at]
        related = cosine >= limits.stranger
        low_rank.append(_low_rank(first, at, spectra, limits) if related and changed else {})
        kept.append(_kept(models, at) if related and cosine < limits.close else float("nan"))
        gains.append(_gains(models, at))
        neurons.append(match_neurons(models, at) if _apart(first, at, limits) else None)
    return replace(
        first,
        gains=tuple(gains),
        low_rank=tuple(low_rank),
        kept=tuple(kept),
        neurons=tuple(neurons),
    )


def _table(models: Opened, tensor: Tensor, tokens: Sequence[Tokens | None]) -> Sums:
    total = Sums(len(tensor.names))
    for at, name in enumerate(tensor.names):
        if name is not None:
            pair = models.sources[0], models.sources[at + 1]
            total = total + sum_table(pair, tensor, at, tokens[at])
    return total


def _cosine(sums: Sums, at: int) -> float:
    scale = (sums.square[at] * sums.squares[at]) ** 0.5
    return float(sums.products[at] / scale) if scale else float("nan")


def _apart(comparison: Comparison, at: int, limits: Thresholds) -> bool:
    """Whether the MLPs share no coordinates, so that their neurons must be looked for."""
    mlp = comparison.sums(lambda tensor: tensor.matrix and tensor.module == "mlp")
    return mlp.elements[at] > 0 and _cosine(mlp, at) < limits.stranger


def _low_rank(
    comparison: Comparison, at: int, spectra: int, limits: Thresholds
) -> dict[str, LowRank]:
    models, found = comparison.models, {}
    changed = [
        tensor
        for tensor, sums in zip(models.tensors, comparison.tensors, strict=True)
        if tensor.matrix
        and len(tensor.shape) == 2
        and min(tensor.shape) >= 8
        and sums.gram[at, at] > limits.changed * sums.squares[at]
    ]
    for tensor in _spread(changed, spectra):
        name = tensor.names[at]
        assert name is not None
        found[tensor.name] = measure_low_rank(
            models.sources[0],
            tensor.name,
            models.sources[at + 1],
            name,
            (tensor.shape[0], tensor.shape[1]),
            limits.low_rank_noise,
        )
    return found


def _kept(models: Opened, at: int) -> float:
    from mixlab.probe._directions import rates

    chosen = [t for t in models.tensors if t.matrix and len(t.shape) == 2 and min(t.shape) > 12]
    total = np.zeros((2, 4))
    for tensor in _spread(chosen, _DIRECTIONS):
        name, shape = tensor.names[at], (tensor.shape[0], tensor.shape[1])
        assert name is not None
        mine = read_matrix(models.sources[0], tensor.name, shape, torch.float32)
        its = read_matrix(models.sources[at + 1], name, shape, torch.float32)
        total += measure_directions(mine, its, tensor.name)
    return max(rates(total))


def _gains(models: Opened, at: int) -> float:
    """Correlation of the blocks' norm weights, each centred: they start equal in any model."""
    products = np.zeros(3)
    for tensor in models.tensors:
        name = tensor.names[at]
        if tensor.layer is None or tensor.module != "norms" or len(tensor.shape) != 1 or not name:
            continue
        v, r = (
            source.read(one).double()
            for source, one in ((models.sources[0], tensor.name), (models.sources[at + 1], name))
        )
        v, r = v - v.mean(), r - r.mean()
        products += [float(v @ r), float(v @ v), float(r @ r)]
    scale = (products[1] * products[2]) ** 0.5
    return float(products[0] / scale) if scale else float("nan")


def _spread(tensors: Sequence[Tensor], most: int) -> list[Tensor]:
    """At most so many, spread over all, so that every kind of module stands among them."""
    if len(tensors) <= most:
        return list(tensors)
    return [tensors[int(at)] for at in np.linspace(0, len(tensors) - 1, most)]
